"""``python -m pytest_dlperf.worker.from_mpi COMMAND``: a rank of mpirun or srun for torch.

Open MPI, Slurm and PyTorch's ``env://`` use different environment variables for the place of a
rank. Both pass on ``MASTER_ADDR`` and ``MASTER_PORT``, the address where ranks meet.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_PLACES: Final = (
    {
        "RANK": "OMPI_COMM_WORLD_RANK",
        "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
        "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
        "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
        "NODE_RANK": "OMPI_COMM_WORLD_NODE_RANK",
    },
    # The last: mpirun within a job of Slurm has that job's variables as well
    {
        "RANK": "SLURM_PROCID",
        "WORLD_SIZE": "SLURM_NTASKS",
        "LOCAL_RANK": "SLURM_LOCALID",
        "NODE_RANK": "SLURM_NODEID",
    },
)


def main(argv: list[str]) -> None:
    """Become the command of ``argv``, with the place of this rank in its environment."""
    places = [place for place in _PLACES if all(source in os.environ for source in place.values())]
    if not places:
        sys.exit(
            f"{_PLACES[0]['RANK']} and {_PLACES[1]['RANK']} are not set, so this rank has no "
            "place; start it by Open MPI's mpirun, or by srun"
        )
    for name, source in places[0].items():
        os.environ[name] = os.environ[source]
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
