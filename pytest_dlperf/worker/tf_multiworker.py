"""``python -m pytest_dlperf.worker.tf_multiworker``: one process a rank, with TF_CONFIG.

Standard library only. Starts the command after ``--`` several times and waits. When one rank
fails, the others get a moment to write their own errors, and are ended. The supervisor ends
processes that are left after that.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from typing import Final

_POLL_S: Final = 0.05
#: From the first failure to the end of the others.
_LAST_WORDS_S: Final = 5.0


def main(argv: list[str] | None = None) -> int:
    """Run all ranks to their end; return 0, or the exit status of the first that failed."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.tf_multiworker")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    addresses = _free_addresses(arguments.processes)
    ranks = [
        subprocess.Popen(arguments.command[1:], env={**os.environ, **place(rank, addresses)})
        for rank in range(arguments.processes)
    ]
    failed = _wait(ranks, None)
    if failed is None:
        return 0
    rank, status = failed
    print(f"rank {rank} ended with {status}; ending the others", flush=True)  # noqa: T201
    _wait(ranks, time.monotonic() + _LAST_WORDS_S)
    for process in ranks:
        process.terminate()
    # As a shell reports a signal.
    return status if status > 0 else 128 - status


def place(rank: int, addresses: list[str]) -> dict[str, str]:
    """Return the environment variables of the place of ``rank``."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return {
        "TF_CONFIG": json.dumps(cluster),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(len(addresses)),
    }


def _free_addresses(count: int) -> list[str]:
    """Return so many addresses on this host; all open at once, so that none comes twice."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]
    for listening in sockets:
        listening.close()
    return addresses


def _wait(ranks: list[subprocess.Popen[bytes]], until_s: float | None) -> tuple[int, int] | None:
    """Wait for the end of all, or for ``until_s``; without that, for the first failure too.

    Return the first rank that failed, with its status; None if none did.
    """
    while True:
        statuses = [process.poll() for process in ranks]
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
        if None not in statuses or (failed is not None and until_s is None):
            return failed
        if until_s is not None and time.monotonic() > until_s:
            return failed
        time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main())
