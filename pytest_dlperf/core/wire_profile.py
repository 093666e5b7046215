"""The record of a rank's profiled steps, which is also stored beside a baseline.

Standard library only, as ``wire_records.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

if TYPE_CHECKING:
    # Not in the standard library of Python 3.10.
    from typing_extensions import NotRequired

#: Steps that are profiled: so many where they are long, and more where they are short, since
#: whatever else runs on the machine disturbs a larger share of a few short ones.
FEWEST_STEPS: Final = 5
MOST_STEPS: Final = 20
_PROFILED_S: Final = 2.0
#: Steps whose allocations are recorded: what a step leaves behind is there several times.
MEMORY_STEPS: Final = 3
#: So long steps are sampled by py-spy, and not more of them.
_SAMPLED_S: Final = 1.5
_MOST_SAMPLED: Final = 300


def steps_in_profile(step_s: float) -> int:
    """Return how many steps of ``step_s`` seconds are profiled."""
    return max(FEWEST_STEPS, min(MOST_STEPS, int(_PROFILED_S / max(step_s, 1e-6))))


def steps_in_stacks(step_s: float) -> int:
    """Return how many steps of ``step_s`` seconds py-spy samples."""
    return max(3, min(_MOST_SAMPLED, round(_SAMPLED_S / max(step_s, 1e-6))))


class ProfiledSteps(NamedTuple):
    """Steps after the window of a program, whose ranks do not ask each other how many."""

    profiled: int
    sampled: int
    #: Seconds of a step of a program that marks none, whose ranks py-spy samples instead.
    unmarked_s: float | None = None

    @property
    def in_all(self) -> int:
        """The first, which is not kept; those of the profile, of allocations, and of stacks."""
        return 1 + self.profiled + MEMORY_STEPS + self.sampled


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
    #: Names of the kernels that it starts on a GPU; absent on a CPU.
    kernels: NotRequired[list[str]]


class LiveAllocation(TypedDict):
    """What was allocated at one place, and not freed at the peak."""

    #: The innermost frame of the user's program and the operator, as the profiler knows them.
    place: str
    bytes: int
    #: Number of allocations; 0 for what was there before.
    count: int


class LiveMemory(TypedDict):
    """What is allocated at the peak of some steps."""

    peak_bytes: int
    #: Those with the most bytes first.
    allocations: list[LiveAllocation]


class HostStack(TypedDict):
    """Where Python is, for so many seconds a step."""

    #: The outermost first, joined by ``;``.
    frames: str
    seconds: float


class ProfileRecord(TypedDict, total=False):
    """What a profile of a few steps after the window showed; or a problem."""

    #: Why there is none; then nothing else is in the record.
    problem: str
    #: Whose it is, of a stored one.
    rank: int
    windows: list[ProfiledWindow]
    #: Those with the most time first.
    operators: list[ProfiledOperator]
    #: Kernels and copies that a step starts on the GPU; None on a CPU.
    launches: float | None
    #: Of three further steps.
    memory: LiveMemory
    #: Of further steps, where py-spy is installed; those with the most time first.
    stacks: list[HostStack]
    #: Name of the file with the trace, in the folder of the run; not written for all ranks.
    trace: str
    #: Why there is no trace, or there are fewer steps.
    note: str
