"""``python -m pytest_dlperf.worker.jax_processes``: the processes of a JAX training on one node.

Standard library only; ``rank_processes.py`` starts and ends them. Each gets its place, and where
the processes of all nodes meet. A program of its own calls ``jax.distributed.initialize`` with
them: JAX reads the address and the devices from the environment, the rest is to be given.
"""

from __future__ import annotations

import argparse
import sys

from pytest_dlperf.worker import rank_processes


def main(argv: list[str] | None = None) -> int:
    """Run this node's ranks to their end; return 0, or the status of the first that failed."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.jax_processes")
    parser.add_argument("--processes", type=int, required=True, help="of this node")
    parser.add_argument("--devices", type=int, default=1, help="of each process")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--coordinator", default="", help="address; a free one on one node")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    coordinator = arguments.coordinator or rank_processes.free_addresses(1)[0]
    places = [
        place(local_rank, arguments, coordinator) for local_rank in range(arguments.processes)
    ]
    return rank_processes.run(arguments.command[1:], places)


def place(local_rank: int, arguments: argparse.Namespace, coordinator: str) -> dict[str, str]:
    """Return the environment variables of the place of a rank of this node."""
    first = local_rank * arguments.devices
    return {
        "RANK": str(arguments.node_rank * arguments.processes + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(arguments.nodes * arguments.processes),
        "JAX_COORDINATOR_ADDRESS": coordinator,
        # Of its own accord JAX listens on all interfaces.
        **({"JAX_COORDINATOR_BIND_ADDRESS": coordinator} if arguments.nodes == 1 else {}),
        "JAX_LOCAL_DEVICE_IDS": ",".join(map(str, range(first, first + arguments.devices))),
    }


if __name__ == "__main__":
    sys.exit(main())
