"""The record of a rank's profiled steps, which is also stored beside a baseline.

Standard library only, as ``wire_records.py``.
"""

from __future__ import annotations

from typing import TypedDict


class ProfiledWindow(TypedDict):
    """Some profiled steps of a rank, and the disjoint parts that they consist of."""

    steps: int
    #: Of all its steps; the parts add up to it.
    seconds: float
    #: By the names in ``worker/step_parts.py``.
    parts: dict[str, float]


class ProfiledOperator(TypedDict):
    """An operator at one place of the model: its calls, and its own seconds, a step."""

    path: str
    name: str
    part: str
    calls: float
    seconds: float


class ProfileRecord(TypedDict, total=False):
    """What a profile of a few steps after the window showed; or a problem."""

    #: Why there is none; then nothing else is in the record.
    problem: str
    windows: list[ProfiledWindow]
    #: Those with the most time first.
    operators: list[ProfiledOperator]
    #: Name of the file with the trace, in the folder of the run; not written for all ranks.
    trace: str
    #: Why there is no trace, or there are fewer steps.
    note: str
