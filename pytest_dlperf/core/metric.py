"""Figures beside the rate of a training: what a run has, what a case gates, what is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share

Better = Literal["lower", "higher"]
#: In place of a tolerance: any change for the worse fails, and one run is enough.
COUNT: Final = "count"
#: Names of what every case is compared by; no metric may have one of them.
TAKEN: Final = frozenset(
    {"throughput", "speedup", "peak_memory", "anchor", "whole_window", "cpu_seconds"}
)
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
        if self.name in TAKEN:
            raise UsageError(
                f"metric {self.name}: every case that has it is compared by it already; leave it "
                "out of metrics"
            )


def gates_of(value: Any) -> tuple[Gate, ...]:
    """Return what the marker's ``metrics`` gates: names, or names with their tolerances.

    A tolerance is a share (``"10%"``), ``"count"``, or None. Raises ``UsageError``.
    """
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = dict.fromkeys(value)
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(
            f"metrics {value!r}: give a list of names, or a mapping such as "
            '{"compile_seconds": "10%", "graph_breaks": "count"}'
        )
    return tuple(_gate(name, given) for name, given in value.items())


def _gate(name: str, given: Any) -> Gate:
    if given is None:
        return Gate(name=name)
    if given == COUNT:
        return Gate(name=name, is_count=True)
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise UsageError(
            f'metric {name}: {given!r} is not a tolerance; give "10%", "count" or None'
        )
    share = parse_share(given, what=f"metric {name}")
    if share >= 1:
        raise UsageError(f"metric {name}: tolerance {share:.0%} must be below 100 %")
    return Gate(name=name, tolerance=share, is_count=False)
