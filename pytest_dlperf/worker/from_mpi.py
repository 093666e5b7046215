"""``python -m pytest_dlperf.worker.from_mpi COMMAND``: a rank under Open MPI as torch expects it.

Open MPI and PyTorch's ``env://`` use different environment variables for the place of a rank.
mpirun passes on ``MASTER_ADDR`` and ``MASTER_PORT``, the address where ranks meet.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_PLACE: Final = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "NODE_RANK": "OMPI_COMM_WORLD_NODE_RANK",
}


def main(argv: list[str]) -> None:
    """Become the command of ``argv``, with the place of this rank in its environment."""
    for name, source in _PLACE.items():
        if source not in os.environ:
            sys.exit(
                f"{source} is not set, so this rank has no place; start it by Open MPI's mpirun"
            )
        os.environ[name] = os.environ[source]
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
