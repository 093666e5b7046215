"""The arguments of this rank: its command line, and its place from the launcher's environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_dlperf.core.wire import RankArguments


@dataclass(frozen=True, kw_only=True)
class Arguments(RankArguments):
    """The command line of this rank, and the place that its launcher gave it."""

    rank: int
    local_rank: int
    #: The number of ranks that the launcher started.
    launched_world_size: int

    @property
    def folder(self) -> Path:
        """Return the folder of the run's records."""
        return Path(self.records)


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Return the arguments of this rank; exit with a usage message if they are wrong."""
    given = RankArguments.of_flags(argv)
    rank, local_rank, world_size = given.place_from
    return Arguments(
        **vars(given),
        rank=int(os.environ.get(rank, "0")),
        local_rank=int(os.environ.get(local_rank, "0")),
        launched_world_size=int(os.environ.get(world_size, "1")),
    )
