"""Finds the operators of programs that XLA compiled, in what a profiler recorded.

An operator is an instruction of such a program. The program knows where it comes from: the scopes
around it (``jax.named_scope``, and the modules of Flax) and the operation. A fusion of several has
the name of one of them, its last. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pytest_dlperf.worker.step_parts import (
    COMMUNICATION,
    COMPUTE,
    NO_PART,
    OF_BACKWARD,
    TraceEvent,
    length,
    part_of,
    union,
)
from pytest_dlperf.worker.xplane import Instruction, Program, XEvent, XLine, XSpace

#: Begin the opcodes of collectives.
_COLLECTIVES: Final = (
    "all-gather", "all-reduce", "all-to-all", "collective-", "ragged-all-to-all", "recv",
    "reduce-scatter", "send",
)  # fmt: skip
#: Opcodes of what only runs other instructions, which have events of their own.
_CONTAINERS: Final = frozenset({"call", "conditional", "while"})
#: Opcodes that are shown by the name that they have in fusions.
_SHOWN: Final = {"dot": "dot_general", "convolution": "conv_general_dilated"}
#: Begins the event at the end of an instruction, which may be long after its function returned.
_END: Final = "end: "


def xla_events(space: XSpace) -> list[TraceEvent]:
    """Return the events of operators, of one device of this process.

    That is the one with the least time in collectives: the others wait for it.
    """
    lines = list(space.lines())
    programs = space.programs()
    on_gpu = any(is_stream(line) for line in lines)
    ends = {
        event.facts["_c"]: event.end_us
        for line in lines
        for event in line.events
        if event.name.startswith(_END) and "_c" in event.facts
    }
    by_device: dict[tuple[str, int], list[TraceEvent]] = {}
    for line in lines:
        if is_stream(line) != on_gpu:
            continue
        for event in line.events:
            device = line.plane, int(event.facts.get("device_ordinal", 0))
            if on_gpu:
                operator = _operator(event, programs) if "hlo_op" in event.facts else None
                events = kernel_events(line, event, operator)
            elif "hlo_op" in event.facts:
                events = [_on_cpu(line, event, programs, ends)]
            else:
                continue
            by_device.setdefault(device, []).extend(events)
    return min(by_device.values(), key=_communication_us, default=[])


def is_stream(line: XLine) -> bool:
    """Return whether the events of a line are kernels and copies of a GPU."""
    return line.plane.startswith("/device:GPU") and line.name.startswith("Stream")


def _communication_us(events: list[TraceEvent]) -> float:
    spans = ((e.begin_us, e.end_us) for e in events if part_of(e) == COMMUNICATION)
    return length(union(spans))


def _on_cpu(
    line: XLine, event: XEvent, programs: Mapping[str, Program], ends: Mapping[int, float]
) -> TraceEvent:
    operator = _operator(event, programs)
    end_us = max(event.end_us, ends.get(event.facts.get("_p", 0), 0.0))
    return TraceEvent(
        name=operator.name,
        begin_us=event.begin_us,
        end_us=end_us,
        thread=line.number,
        # Other threads go on with it
        is_async=end_us > event.end_us,
        part=operator.part,
        path=operator.path,
    )


class Operator(NamedTuple):
    """What an event says of the operator that it is of."""

    name: str
    part: str
    path: str


def kernel_events(line: XLine, event: XEvent, operator: Operator | None) -> list[TraceEvent]:
    """Return a kernel, and, without a length, the operator that started it."""
    times = event.begin_us, event.end_us
    kernel = TraceEvent(event.name, *times, thread=line.number, on_device=True)
    if operator is None:
        return [kernel]
    started = TraceEvent(
        name=operator.name,
        begin_us=event.begin_us,
        end_us=event.begin_us,
        thread=-line.number,
        device_us=event.end_us - event.begin_us,
        kernels=(event.name,),
        part=operator.part,
        path=operator.path,
    )
    return [kernel, started]


def _operator(event: XEvent, programs: Mapping[str, Program]) -> Operator:
    module, operation = str(event.facts.get("hlo_module", "")), str(event.facts["hlo_op"])
    numbered = f"{module}({event.facts.get('program_id', '')})"
    program = programs.get(numbered) or programs.get(module) or {}
    # Numbers at the end tell instructions of one program apart, and differ between programs
    bare = re.sub(r"[.\d]+$", "", operation)
    instruction = program.get(operation, Instruction(opcode=bare, op_name=""))
    opcode = instruction.opcode
    path, primitive = place_of(instruction.op_name)
    if opcode in _CONTAINERS:
        return Operator(bare, NO_PART, path)
    if opcode.startswith(_COLLECTIVES):
        return Operator(opcode, COMMUNICATION, path)
    return Operator(_SHOWN.get(opcode) or primitive or bare, COMPUTE, path)


#: Scopes that say how a function was transformed, and not whose work it is.
_STRUCTURE: Final = frozenset({
    "body", "checkpoint", "closed_call", "cond", "core_call", "custom_jvp_call", "custom_vjp_call",
    "main", "pjit", "rematted_computation", "scan", "shard_map", "while",
})  # fmt: skip
#: A transformation of a scope, such as ``jvp(net)``.
_TRANSFORMED: Final = re.compile(r"(\w+)\((.*)\)")


def place_of(op_name: str) -> tuple[str, str]:
    """Return the path of modules, with a word for the backward, and the operation.

    ``jit(f)/transpose(jvp(net))/layer/dot_general`` gives ``net.layer (backward)``. Functions
    that were compiled (``jit``) are no modules: those of libraries change with versions.
    """
    *scopes, operation = _split(op_name)
    is_backward, names = False, []
    for scope in scopes:
        name = scope
        while match := _TRANSFORMED.fullmatch(name):
            is_backward |= match[1] == "transpose"
            name = "" if match[1] in {"jit", "pjit"} else match[2]
        if name and name not in _STRUCTURE:
            names.append(name.replace("/", "."))
    path = ".".join(names)
    return (path + OF_BACKWARD).strip() if is_backward else path, operation


def _split(op_name: str) -> list[str]:
    """Return the parts between slashes that are in no brackets."""
    parts, depth = [""], 0
    for letter in op_name:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
