"""Figures beside the rate of a training: what a run has, what a case gates, what is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from pytest_dlperf.core.errors import UsageError

Better = Literal["lower", "higher"]
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A metric of one run."""

    value: float
    #: Empty for a count or a ratio.
    unit: str = ""
    better: Better = "lower"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFigures:
    """A metric of the runs of a stored session."""

    runs: tuple[float, ...]
    unit: str = ""
    better: Better = "lower"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A metric that a case is gated on."""

    name: str
    #: The change for the worse up to which it passes; None: the metric's own, or else the
    #: default of its unit.
    tolerance: float | None = None
    #: Whether it is a count: any change for the worse fails. None: as the metric itself says.
    is_count: bool | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"metric {self.name!r}: use lower-case letters, digits and _ only")
