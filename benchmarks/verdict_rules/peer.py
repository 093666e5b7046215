"""What every rule of a peer looks like to the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds of iterations: one row a run.
Seconds: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerRule:
    """One rule of one tool, with the settings that its name gives."""

    name: str
    tool: str
    #: What the tool takes as its samples. A rule on iterations cannot judge runs alone.
    level: Literal["iteration", "run"]
    #: Runs of each side where the tool is used as its users do.
    usual_runs: int
    #: Whether the second side is slower than the first.
    regressed: Callable[[Seconds, Seconds], bool]


def iterations(side: Seconds) -> list[float]:
    """Return the seconds of all iterations of all runs, as one sample."""
    return [float(value) for value in side.ravel()]


def run_means(side: Seconds) -> list[float]:
    """Return the mean seconds of an iteration of each run."""
    return [float(value) for value in side.mean(axis=1)]
