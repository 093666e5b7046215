"""Measurements, the conditions that must be equal before two are compared, and the environment."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.run import Problem, RunSummary

#: Enough to distinguish a repository's commits, and short enough for a column.
_SHOWN: Final = 7


def short_commit(commit: str) -> str:
    """Return the beginning of a commit; empty for none."""
    return commit[:_SHOWN]


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """The machine and the software of one outcome; what is not known is absent, not guessed."""

    #: Slug that keys baselines: ``8x-v100-sxm2-32gb``, ``2x-amd-epyc-9b45``; may be pinned.
    machine_class: str
    #: The slug that was detected, even if another one is pinned.
    hardware: str
    node: str
    #: Driver, CUDA, framework and its version, Python, image, commit ...
    software: Mapping[str, str]
    #: OS, CPU, memory, GPUs ...
    machine: Mapping[str, str]
    #: Versions of all installed packages; ``software`` has their digest. Files have each list
    #: once.
    packages: Mapping[str, str] = field(default_factory=dict)


#: Code of the problem of a measurement whose budget was spent before all its runs.
CUT_SHORT: Final = "cut-short"
#: Code of the problem of a measurement whose reference, the divisor of its speedup, cannot run.
SPEEDUP_UNKNOWN: Final = "speedup-unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What must be equal before two numbers are compared; a difference is ``incomparable``."""

    window: tuple[int, int]
    launcher: str
    world_size: int
    batch_size_per_device: int
    unit: str
    #: The dtype in which most matrix work was done, as seen by the ranks; for a user's
    #: program, what the case declares.
    dtype: str
    #: ``synthetic``, ``real``, or ``own`` (a user's program).
    data: str
    #: None for a user's program.
    parameter_count: int | None
    input_shapes: tuple[tuple[int, ...], ...]
    options: Mapping[str, str | int | float | bool]
    threads_per_rank: int
    host_sharing: bool
    hardware: str
    version: int

    def differences(self, other: Conditions) -> tuple[str, ...]:
        """Return a phrase ``field: mine, was theirs`` for each field that differs."""
        return tuple(
            f"{f.name}: {getattr(self, f.name)}, was {getattr(other, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(other, f.name)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """All runs of one case in one session, and what was summarised from them."""

    case_id: str
    unit: str
    conditions: Conditions
    #: The runs that count.
    runs: tuple[RunSummary, ...]
    #: Runs that were disturbed, and repeated.
    disturbed_runs: tuple[RunSummary, ...] = ()
    #: Throughputs of the runs of the same case on one device, or on the layout ``reference``,
    #: measured in this session.
    parent_throughputs: tuple[float, ...] = ()
    #: None: one device.
    reference: Layout | None = None
    problems: tuple[Problem, ...] = ()
    #: Share by which steps were made longer on purpose; 0 for none.
    inject: float = 0.0

    @property
    def throughputs(self) -> tuple[float, ...]:
        """Throughput of each run that counts."""
        return tuple(run.throughput for run in self.runs)

    @property
    def throughput(self) -> float:
        """Median over the runs: the value of the case."""
        return statistics.median(self.throughputs)

    @property
    def speedup(self) -> float | None:
        """Median of the case over the median of the same case on one device (as seed 003).

        Or on the layout ``reference``.
        """
        if not self.parent_throughputs:
            return None
        return self.throughput / statistics.median(self.parent_throughputs)

    @property
    def efficiency(self) -> float | None:
        """Speedup over the ideal one: the number of devices, over that of the reference."""
        if self.speedup is None:
            return None
        devices = 1 if self.reference is None else self.reference.world_size
        return self.speedup * devices / self.conditions.world_size

    @property
    def reference_words(self) -> str:
        """What the speedup is over: ``one device``, or a layout."""
        return "one device" if self.reference is None else self.reference.words

    @property
    def peak_memory_bytes(self) -> float | None:
        """Median over the runs of the largest rank's peak; None if a run does not know it."""
        peaks = [run.peak_memory_bytes for run in self.runs if run.peak_memory_bytes is not None]
        return statistics.median(peaks) if len(peaks) == len(self.runs) else None
