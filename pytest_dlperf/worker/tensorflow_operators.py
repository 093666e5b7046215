"""Finds the operators of TensorFlow's graphs in what its profiler recorded.

The event of one has its name in the graph and its type: ``net/dense/MatMul:MatMul``. One that
only begins something, such as Horovod's all-reduce, has an event where it begins and another, on
any thread, where it is done. Standard library only.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.worker.step_parts import (
    COMMUNICATION,
    COMPILATION,
    COMPILING,
    COMPUTE,
    DATA,
    DATA_EVENT,
    NO_PART,
    OF_BACKWARD,
    TraceEvent,
)
from pytest_dlperf.worker.xla_operators import Operator, is_stream, kernel_events
from pytest_dlperf.worker.xplane import XEvent, XLine, XSpace

#: Name and type of an operator, as ``ParseTfOpFullname`` of TensorFlow's profiler splits them.
_NAMED: Final = re.compile(r"([A-Za-z0-9.][\w.\\/>-]*):(_?[A-Z]\w*)")
#: Begin and end of an operator that is done later; the numbers of both are the same.
_BEGIN, _END = "ExecutorState::ProcessAsync::Start", "ExecutorState::ProcessAsync::Done"
#: Where Python asks for the next batch.
_NEXT: Final = "IteratorGetNextOp::DoCompute"
#: Begins the names of threads that make batches ahead.
_OF_DATA: Final = "tf_data_"
#: Begin the types of collectives: of Horovod, and of TensorFlow's own strategy.
_COLLECTIVES: Final = (
    "Collective", "HorovodAll", "HorovodBroadcast", "HorovodGrouped", "HorovodReduce", "Nccl",
)  # fmt: skip
#: Types of what only runs other operators, which have events of their own.
_CONTAINERS: Final = frozenset({
    "Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf",
    "StatelessWhile", "While",
})  # fmt: skip


def tensorflow_events(space: XSpace) -> list[TraceEvent]:
    """Return the events of operators, of waits for data and of what was traced."""
    lines = list(space.lines())
    ends = {
        event.facts.get("_c"): event.begin_us
        for line in lines
        for event in line.events
        if event.name == _END
    }
    kernels: list[TraceEvent] = []
    begun: list[TraceEvent] = []
    on_host: list[TraceEvent] = []
    for line in lines:
        if line.name.startswith(_OF_DATA):
            continue
        for event in line.events:
            if is_stream(line):
                named = _NAMED.fullmatch(str(event.facts.get("tf_op", "")))
                operator = _operator(*named.groups()) if named else None
                kernels += kernel_events(line, event, operator)
            elif event.name == _BEGIN:
                end_us = ends.get(event.facts.get("_p"))
                begun += [] if end_us is None else [_begun(line, event, end_us)]
            else:
                on_host += _host_events(line, event)
    # TensorFlow's own collectives have an event on the thread that does them, too
    names = {event.name for event in begun if event.part == COMMUNICATION}
    on_host = [event for event in on_host if event.name not in names]
    return kernels + on_host + _in_sequence(begun)


def _in_sequence(begun: list[TraceEvent]) -> list[TraceEvent]:
    """Return events that overlap as if each began when those before it were done.

    Collectives of a step are all under way at once: together they take no longer than the last.
    """
    done_us, events = 0.0, []
    for event in sorted(begun, key=lambda event: event.begin_us):
        if event.part == COMMUNICATION:
            event = event._replace(begin_us=min(max(event.begin_us, done_us), event.end_us))
            done_us = max(done_us, event.end_us)
        events.append(event)
    return events


def _host_events(line: XLine, event: XEvent) -> list[TraceEvent]:
    times = event.begin_us, event.end_us
    if named := _NAMED.fullmatch(event.name):
        operator = _operator(*named.groups())
        return [_event(operator, *times, line.number)]
    if event.name == _NEXT:
        return [TraceEvent(DATA_EVENT, *times, thread=line.number)]
    if str(event.facts.get("tf_function_call", "")).startswith("traced"):
        # Its operators run within, on other threads
        traced = Operator(COMPILING, COMPILATION, "")
        return [_event(traced, *times, line.number, is_async=True)]
    return []


def _begun(line: XLine, event: XEvent, end_us: float) -> TraceEvent:
    operator = _operator(str(event.facts.get("name", "")), str(event.facts.get("kernel_type", "")))
    if operator.part == COMPUTE:
        # It waits for something that has events of its own
        operator = operator._replace(part=NO_PART)
    return _event(operator, event.begin_us, end_us, line.number, is_async=True)


def _event(
    operator: Operator, begin_us: float, end_us: float, thread: int, *, is_async: bool = False
) -> TraceEvent:
    return TraceEvent(
        name=operator.name,
        begin_us=begin_us,
        end_us=end_us,
        thread=thread,
        is_async=is_async,
        part=operator.part,
        path=operator.path,
    )


def _operator(name: str, kind: str) -> Operator:
    if kind.startswith(_COLLECTIVES):
        return Operator(kind, COMMUNICATION, "")
    if kind in _CONTAINERS:
        return Operator(kind, NO_PART, "")
    if kind == "IteratorGetNext":
        return Operator("DataLoader", DATA, "data")
    return Operator(kind, COMPUTE, path_of(name, kind))


#: Ends what says through which function an operator was brought into the graph.
_INLINED: Final = re.compile(r".*/(?:then|else|body|cond)/_\d+/")
_GRADIENTS: Final = "gradient_tape"
#: The name of an operator, among those of layers.
_OPERATOR: Final = re.compile(r"[A-Z][A-Za-z]*(V\d+)?(_\d+)?")


def path_of(name: str, kind: str) -> str:
    """Return the path of layers of an operator, by its name in the graph.

    ``gradient_tape/net/dense/MatMul/MatMul_1`` gives ``net.dense (backward)``: in the backward
    the name of the forward's operator is among the scopes, as it is for the variable of one.
    """
    scopes = _INLINED.sub("", name).split("/")[:-1]
    is_backward = scopes[:1] == [_GRADIENTS]
    if is_backward:
        scopes = scopes[1:]
    of_operator = kind == "ReadVariableOp" or (
        is_backward and scopes and _OPERATOR.fullmatch(scopes[-1])
    )
    if of_operator and len(scopes) > 1:
        scopes = scopes[:-1]
    path = ".".join(scopes)
    return (path + OF_BACKWARD).strip() if is_backward else path
