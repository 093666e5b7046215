"""``python -m pytest_dlperf.worker.tf_multiworker``: one process a rank, with TF_CONFIG.

Standard library only; ``rank_processes.py`` starts and ends the ranks.
"""

from __future__ import annotations

import argparse
import json
import sys

from pytest_dlperf.worker import rank_processes


def main(argv: list[str] | None = None) -> int:
    """Run all ranks to their end; return 0, or the exit status of the first that failed."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.tf_multiworker")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    addresses = rank_processes.free_addresses(arguments.processes)
    places = [place(rank, addresses) for rank in range(arguments.processes)]
    return rank_processes.run(arguments.command[1:], places)


def place(rank: int, addresses: list[str]) -> dict[str, str]:
    """Return the environment variables of the place of ``rank``."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return {
        "TF_CONFIG": json.dumps(cluster),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(len(addresses)),
    }


if __name__ == "__main__":
    sys.exit(main())
