"""The disjoint parts of profiled steps, and their operators, from the events of a trace.

Every moment of a step belongs to one part: the first of the order below that has an event then.
So the parts add up to the step, and communication that computation hides counts as computation.
Standard library only.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.wire_profile import ProfiledOperator, ProfiledWindow

COMPUTE: Final = "compute"
COMMUNICATION: Final = "exposed communication"
COPIES: Final = "exposed copies"
DATA: Final = "waiting for data"
WAITS: Final = "host waits"
#: The GPU has nothing to do since the host waited for it, and until work is queued on it again.
AFTER_WAITS: Final = "after host waits"
ALLOCATOR: Final = "allocator"
#: Tracing and compiling functions, which a step of a training that is under way should not need.
COMPILATION: Final = "compilation"
#: Name of the one row of it.
COMPILING: Final = "tracing and compiling"
#: What no event covers: the host's own program, and the launches of operators.
PYTHON: Final = "Python and launches"
#: Of an event that says that it is of no part.
NO_PART: Final = "none"
#: On a CPU an operator that makes a batch is part of the wait for it.
_ON_CPU: Final = (DATA, WAITS, COMPUTE, COMMUNICATION, COMPILATION, ALLOCATOR)
#: While a GPU computes, nothing that the host does takes time of the step.
_ON_GPU: Final = (
    COMPUTE, COMMUNICATION, COPIES, DATA, COMPILATION, ALLOCATOR, WAITS, AFTER_WAITS,
)  # fmt: skip

#: Prefix of the annotation around a module's forward.
MODULE: Final = "dlperf.module:"
#: Begins the name of the event around the wait for a batch.
DATA_EVENT: Final = "enumerate(DataLoader)"
#: Begins the names of collectives, and is within those of the kernels of NCCL and RCCL.
_COLLECTIVES: Final = (
    "c10d::", "_c10d_functional::", "_c10d_functional_autograd::", "c10d_functional::",
    "_dtensor::", "gloo:", "nccl:", "mpi:", "record_param_comms",
)  # fmt: skip
#: Ends the names of operators in which the host waits for a collective. They are called within
#: another operator where that one uses a tensor whose collective still runs.
_COLLECTIVE_WAITS: Final = "::wait_tensor"
_COMPILED: Final = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
#: Begins the name of the event around an optimizer's step, and that around a node of the backward.
OPTIMIZER: Final = "Optimizer."
BACKWARD: Final = "autograd::engine::evaluate_function"
#: The host's own work at the begin of a break between two operators of the backward, while a
#: collective runs; what is left of the break is a wait. Measured with 24 collectives in a backward
#: of 24 layers on two CPU processes: most breaks took 10 to 120 us, some 300 to 750, when the
#: thread had lost its core; the waits, after the backward, took 0.3 to 7 ms.
_OWN_BREAK_US: Final = 200.0
#: The longest break between kernels that are queued: about 1 us on an H100, where a launch takes
#: the host 4 us and more. And the least duration of kernels without a longer break between them
#: that shows that the host was ahead.
_QUEUED_GAP_US: Final = 2.0
_QUEUED_US: Final = 50.0
#: Ends the path of what is in the backward.
OF_BACKWARD: Final = " (backward)"
_HOST_WAITS: Final = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
_ALLOCATIONS: Final = ("Malloc", "Free", "HostAlloc")
#: Operators of a record; the rest takes next to no time.
_MOST_OPERATORS: Final = 2000
#: Kernels of an operator whose names are kept.
_MOST_KERNELS: Final = 8


class TraceEvent(NamedTuple):
    """An event of a trace; times in microseconds."""

    name: str
    begin_us: float
    end_us: float
    thread: int = 0
    #: Whether it is a kernel, or a copy, on a GPU.
    on_device: bool = False
    #: Whether it began and ended on different threads, so that it is nested in nothing.
    is_async: bool = False
    #: Number by which the backward of an operator is known; negative without one.
    sequence: int = -1
    #: Time of the kernels that the operator itself started.
    device_us: float = 0.0
    #: Their names.
    kernels: tuple[str, ...] = ()
    #: The part that its framework says it is of; empty: by its name.
    part: str = ""
    #: Path of the module that its framework says; empty: that of the annotation around it.
    path: str = ""


Interval = tuple[float, float]
#: From so many windows on, the extremes count neither for parts nor operators.
_TRIMMED: Final = 5


def part_of(event: TraceEvent) -> str:
    """Return the part that the event is of; empty for none, such as an annotation."""
    name = event.name
    if event.part:
        return "" if event.part == NO_PART else event.part
    if event.on_device:
        return _part_on_device(name)
    if name.startswith(DATA_EVENT):
        return DATA
    if name.startswith(_COLLECTIVES):
        return COMMUNICATION
    if name.startswith(_HOST_WAITS):
        return WAITS
    if name.startswith(("cuda", "hip", "cu")) and "::" not in name:
        if "Synchronize" in name:
            return WAITS
        return ALLOCATOR if any(word in name for word in _ALLOCATIONS) else ""
    if name.startswith(_COMPILED):
        return COMPUTE
    is_operator = "::" in name and not name.startswith(("autograd::", "torch::autograd::"))
    return COMPUTE if is_operator and " " not in name else ""


def _part_on_device(name: str) -> str:
    low = name.lower()
    if "nccl" in low or "rccl" in low:
        return COMMUNICATION
    return COPIES if low.startswith(("memcpy", "memset")) else COMPUTE


def without_extremes(windows: Sequence[tuple[Interval, int]]) -> list[tuple[Interval, int]]:
    """Return ``windows``, in their order, without the shortest quarter and the longest.

    One of five at each end; of fewer none. The parts of what is left still add up, as
    they would not if each part had a mean of its own.
    """

    def us_of_step(window: tuple[Interval, int]) -> float:
        (begin_us, end_us), steps = window
        return (end_us - begin_us) / steps

    left_out = len(windows) // 4 if len(windows) >= _TRIMMED else 0
    kept = sorted(windows, key=us_of_step)[left_out : len(windows) - left_out]
    return [window for window in windows if window in kept]


def windows_of(
    events: Sequence[TraceEvent], windows: Sequence[tuple[Interval, int]]
) -> list[ProfiledWindow]:
    """Return the parts of each window, which has its begin, its end and the number of its steps.

    Parts without any time are left out.
    """
    on_gpu = any(event.on_device for event in events)
    spans: dict[str, list[Interval]] = {}
    for event in events:
        part = part_of(event)
        # An operator only starts kernels: while it does, the GPU may be idle
        if part and not (on_gpu and not event.on_device and part in {COMPUTE, COMMUNICATION}):
            spans.setdefault(part, []).append((event.begin_us, event.end_us))
    if on_gpu:
        # Before the first window the worker itself waits for the GPU
        first_us = min((begin_us for (begin_us, _), _ in windows), default=0.0)
        spans[AFTER_WAITS] = _after_waits([event for event in events if event.end_us >= first_us])
    order = _ON_GPU if on_gpu else _ON_CPU
    merged = {part: union(spans.get(part, ())) for part in order}
    if not on_gpu:
        _separate_waits(events, merged)
    profiled = []
    for (begin_us, end_us), steps in windows:
        free: list[Interval] = [(begin_us, end_us)]
        parts = {}
        for part in order:
            left = subtract(free, merged[part])
            if taken_us := length(free) - length(left):
                parts[part] = taken_us / 1e6
            free = left
        parts[PYTHON] = length(free) / 1e6
        # Their sum, so that no rounding is between the whole and its parts
        profiled.append(ProfiledWindow(steps=steps, seconds=sum(parts.values()), parts=parts))
    return profiled


def _separate_waits(events: Sequence[TraceEvent], merged: dict[str, list[Interval]]) -> None:
    """Take waits for collectives out of computation, and the host's own work out of the waits."""
    waits = union((e.begin_us, e.end_us) for e in events if e.name.endswith(_COLLECTIVE_WAITS))
    merged[COMPUTE] = subtract(merged[COMPUTE], waits)
    operators = union(span for part in (DATA, WAITS, COMPUTE) for span in merged[part])
    own = subtract(_own_breaks(events, operators), waits)
    merged[COMMUNICATION] = subtract(merged[COMMUNICATION], own)


def _own_breaks(events: Sequence[TraceEvent], operators: Sequence[Interval]) -> list[Interval]:
    """Return the host's own work between ``operators`` of the backward: the begin of each break.

    That is autograd's work, and starting collectives.
    """
    nodes = [event for event in events if event.name.startswith(BACKWARD)]
    # A short break between two nodes is part of the backward
    backward = union((event.begin_us, event.end_us + _OWN_BREAK_US) for event in nodes)
    backward = [(begin, end - _OWN_BREAK_US) for begin, end in backward]
    breaks = subtract(backward, operators)
    return [(begin, min(end, begin + _OWN_BREAK_US)) for begin, end in breaks]


def _after_waits(events: Sequence[TraceEvent]) -> list[Interval]:
    """Return from the end of each wait of the host to where work is queued on the GPU again.

    A kernel that the host started before it went on with its program queues nothing.
    """
    on_device = sorted((event.begin_us, event.end_us) for event in events if event.on_device)
    stretches = _queued(on_device)
    begins_us = [begin_us for begin_us, _ in on_device]
    queued_us = [begin_us for begin_us, _ in stretches]
    idle = []
    for event in events:
        if event.on_device or part_of(event) != WAITS:
            continue
        now_us = event.end_us
        following = bisect.bisect_left(begins_us, now_us)
        if following == len(begins_us):
            continue
        stretch = bisect.bisect_left(queued_us, now_us)
        if stretch and stretches[stretch - 1][1] > now_us:
            until_us = begins_us[following]  # another stream had work all the time
        else:
            until_us = queued_us[stretch] if stretch < len(queued_us) else begins_us[-1]
        idle.append((now_us, until_us))
    return idle


def _queued(on_device: Sequence[Interval]) -> list[Interval]:
    """Return the stretches in which work is queued, of the sorted work of a GPU."""
    stretches: list[tuple[float, float, int]] = []
    for begin_us, end_us in on_device:
        if stretches and begin_us <= stretches[-1][1] + _QUEUED_GAP_US:
            first_us, last_us, count = stretches[-1]
            stretches[-1] = (first_us, max(last_us, end_us), count + 1)
        else:
            stretches.append((begin_us, end_us, 1))
    return [
        (first_us, last_us)
        for first_us, last_us, count in stretches
        if count > 1 and last_us - first_us >= _QUEUED_US
    ]


def launches_of(
    events: Sequence[TraceEvent], windows: Sequence[tuple[Interval, int]]
) -> float | None:
    """Return how many kernels and copies a step starts on the GPU; None without a GPU."""
    if not any(event.on_device for event in events):
        return None
    inside = [window for window, _ in windows]
    count = sum(
        event.on_device and any(begin <= event.begin_us < end for begin, end in inside)
        for event in events
    )
    return count / sum(steps for _, steps in windows)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return disjoint intervals, in order, that cover the same moments."""
    disjoint: list[Interval] = []
    for begin, end in sorted(intervals):
        if disjoint and begin <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(disjoint[-1][1], end))
        elif end > begin:
            disjoint.append((begin, end))
    return disjoint


def subtract(whole: Sequence[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """Return what of ``whole`` is not in ``taken``; both are as ``union`` returns them."""
    remaining: list[Interval] = []
    first = 0
    for begin, end in whole:
        while first < len(taken) and taken[first][1] <= begin:
            first += 1
        begin_of_rest, index = begin, first
        while index < len(taken) and taken[index][0] < end:
            if taken[index][0] > begin_of_rest:
                remaining.append((begin_of_rest, taken[index][0]))
            begin_of_rest = max(begin_of_rest, taken[index][1])
            index += 1
        if begin_of_rest < end:
            remaining.append((begin_of_rest, end))
    return remaining


def length(intervals: Iterable[Interval]) -> float:
    """Return the time that disjoint intervals cover."""
    return sum(end - begin for begin, end in intervals)


#: Of a row of operators: path, name and part.
_Key = tuple[str, str, str]


class _Open(NamedTuple):
    end_us: float
    path: str
    #: The row of an operator, and what of its time its callees have; None for an annotation.
    row: list[float] | None


def operators_of(
    events: Sequence[TraceEvent], windows: Sequence[tuple[Interval, int]]
) -> list[ProfiledOperator]:
    """Return the operators of the windows by module path and name, those with most time first.

    An operator in the backward has the path of the forward whose backward it is. On a GPU the
    time is that of the kernels, else its own, without that of operators it calls.
    """
    on_gpu = any(event.on_device for event in events)
    steps = sum(count for _, count in windows)
    inside = [(begin, end) for (begin, end), _ in windows]
    rows: dict[_Key, list[float]] = {}
    kernels: dict[_Key, dict[str, None]] = {}
    nesting: dict[int, list[_Open]] = {}
    path_of_sequence: dict[int, str] = {}
    for event in sorted(events, key=lambda e: (e.begin_us, -e.end_us)):
        if event.on_device or not any(b <= event.begin_us < e for b, e in inside):
            continue
        part = part_of(event)
        if event.is_async:
            if part:
                _add(rows, (event.path, event.name, part), event.end_us - event.begin_us)
            continue
        stack = nesting.setdefault(event.thread, [])
        while stack and stack[-1].end_us <= event.begin_us:
            stack.pop()
        path = _path(event, stack[-1].path if stack else "", path_of_sequence)
        row = None
        if part:
            own_us = event.end_us - event.begin_us
            shown = "DataLoader" if part == DATA else event.name
            row = _add(rows, (path, shown, part), event.device_us if on_gpu else own_us)
            if event.kernels:
                kernels.setdefault((path, shown, part), {}).update(dict.fromkeys(event.kernels))
            if not on_gpu and stack and (caller := _caller(stack)) is not None:
                caller[1] -= own_us
            if event.sequence >= 0 and OF_BACKWARD.strip() not in path:
                path_of_sequence[event.sequence] = path
        stack.append(_Open(end_us=event.end_us, path=path, row=row))
    operators = [
        ProfiledOperator(
            path=path, name=name, part=part, calls=calls / steps, seconds=us / 1e6 / steps
        )
        for (path, name, part), (calls, us) in rows.items()
    ]
    operators.sort(key=lambda operator: -operator["seconds"])
    return [_with_kernels(operator, kernels) for operator in operators[:_MOST_OPERATORS]]


def _with_kernels(
    row: ProfiledOperator, kernels: Mapping[_Key, dict[str, None]]
) -> ProfiledOperator:
    if names := kernels.get((row["path"], row["name"], row["part"])):
        row["kernels"] = list(names)[:_MOST_KERNELS]
    return row


def _path(event: TraceEvent, outer: str, path_of_sequence: dict[int, str]) -> str:
    """Return the path of what ``event`` calls, and of itself where it is an operator."""
    if event.path:
        return event.path
    if event.name.startswith(MODULE):
        return event.name[len(MODULE) :] + (OF_BACKWARD if OF_BACKWARD.strip() in outer else "")
    if event.name.startswith(OPTIMIZER):
        return "optimizer"
    if event.name.startswith(DATA_EVENT):
        return "data"
    if event.name.startswith(BACKWARD):
        return (path_of_sequence.get(event.sequence, "") + OF_BACKWARD).strip()
    return outer


def _add(
    rows: dict[tuple[str, str, str], list[float]], key: tuple[str, str, str], us: float
) -> list[float]:
    row = rows.setdefault(key, [0.0, 0.0])
    row[0] += 1
    row[1] += us
    return row


def _caller(stack: Sequence[_Open]) -> list[float] | None:
    return next((one.row for one in reversed(stack) if one.row is not None), None)
