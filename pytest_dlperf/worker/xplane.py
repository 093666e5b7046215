"""Reads the files ``*.xplane.pb`` that the profilers of JAX and TensorFlow write.

They are messages of protocol buffers (``XSpace`` in OpenXLA's ``xplane.proto``): planes of a
machine, their lines, which are threads or streams, and the events of these; and the programs that
XLA compiled (``HloProto`` in its ``hlo.proto``). Only the fields that are used are read, by their
numbers, so that no library of protocol buffers is needed. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

#: Events of it are read as programs.
_PROGRAMS: Final = "/host:metadata"
_PROGRAM: Final = "Hlo Proto"
#: Has facts of the recording.
_RECORDING: Final = "Task Environment"
_BEGIN: Final = "profile_start_time"


class XEvent(NamedTuple):
    """An event of a thread or a stream; times in microseconds."""

    name: str
    begin_us: float
    end_us: float
    facts: Mapping[str, Any]


class XLine(NamedTuple):
    """A thread of the host, or a stream of a device."""

    #: Of its plane, such as ``/host:CPU`` and ``/device:GPU:0``.
    plane: str
    name: str
    #: Different for each.
    number: int
    events: list[XEvent]


class Instruction(NamedTuple):
    """An instruction of a program that XLA compiled."""

    opcode: str
    #: Where the framework's program asked for it, as scopes and an operation: ``jit(f)/net/add``.
    op_name: str


#: Instructions of a program by their names.
Program = Mapping[str, Instruction]


class XSpace:
    """What one process recorded; reading something else raises ``ValueError``."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def lines(self) -> Iterator[XLine]:
        """Return the threads and streams that have events."""
        number = 0
        for plane in self._planes():
            for line in plane.lines:
                number += 1
                shown = plane.events(line)
                if shown.events:
                    yield shown._replace(number=number)

    def programs(self) -> dict[str, Program]:
        """Return the programs that XLA compiled, by name and number: ``jit_step(3)``."""
        by_name: dict[str, Program] = {}
        for plane in self._planes():
            if plane.name == _PROGRAMS:
                for metadata in plane.metadata.values():
                    message = _message(metadata)
                    for stat in message.get(_METADATA_STATS, ()):
                        name, value = plane.stat(stat)
                        if name == _PROGRAM and isinstance(value, bytes):
                            by_name[_text(message, _METADATA_NAME)] = _program(value)
        return by_name

    def begin_s(self) -> float | None:
        """Return when the recording began, in seconds since 1970; None if it is not said.

        The times of events count from then.
        """
        for plane in self._planes():
            if plane.name == _RECORDING:
                for stat in plane.stats:
                    name, value = plane.stat(stat)
                    if name == _BEGIN and isinstance(value, int):
                        return value / 1e9
        return None

    def _planes(self) -> Iterator[_Plane]:
        for number, value in _fields(self._data):
            if number == _SPACE_PLANES:
                yield _Plane(value)


# Numbers of fields
_SPACE_PLANES: Final = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS = 2, 3, 4, 5
_PLANE_OWN_STATS: Final = 6
_KEY, _VALUE = 1, 2
_METADATA_NAME, _METADATA_STATS = 2, 5
_LINE_NAME, _LINE_BEGIN_NS, _LINE_EVENTS = 2, 3, 4
_EVENT_METADATA, _EVENT_OFFSET_PS, _EVENT_PS, _EVENT_STATS = 1, 2, 3, 4
_STAT_METADATA: Final = 1
_STAT_TEXT, _STAT_REFERENCE = 5, 7
_HLO_MODULE: Final = 1
_MODULE_COMPUTATIONS: Final = 3
_COMPUTATION_INSTRUCTIONS: Final = 2
_INSTRUCTION_NAME, _INSTRUCTION_OPCODE, _INSTRUCTION_METADATA = 1, 2, 7
_OP_NAME: Final = 2


class _Plane:
    """A plane, with the names that its events have by number."""

    def __init__(self, data: bytes) -> None:
        message = _message(data)
        self.name = _text(message, _PLANE_NAME)
        self.lines = message.get(_PLANE_LINES, [])
        self.stats = message.get(_PLANE_OWN_STATS, [])
        entries = [_message(entry) for entry in message.get(_PLANE_EVENTS, ())]
        self.metadata = {_number(entry, _KEY): entry[_VALUE][0] for entry in entries}
        self._names = {
            number: _text(_message(metadata), _METADATA_NAME)
            for number, metadata in self.metadata.items()
        }
        self._stats = {
            _number(entry, _KEY): _text(_message(entry[_VALUE][0]), _METADATA_NAME)
            for entry in map(_message, message.get(_PLANE_STATS, ()))
        }

    def events(self, line: bytes) -> XLine:
        """Return a line and its events."""
        message = _message(line)
        begin_us = _number(message, _LINE_BEGIN_NS) / 1e3
        events = []
        for data in message.get(_LINE_EVENTS, ()):
            event = _message(data)
            name = self._names.get(_number(event, _EVENT_METADATA), "")
            if name.startswith(_LISTENERS):
                continue
            at_us = begin_us + _number(event, _EVENT_OFFSET_PS) / 1e6
            facts = dict(self.stat(stat) for stat in event.get(_EVENT_STATS, ()))
            events.append(XEvent(name, at_us, at_us + _number(event, _EVENT_PS) / 1e6, facts))
        return XLine(plane=self.name, name=_text(message, _LINE_NAME), number=0, events=events)

    def stat(self, data: bytes) -> tuple[str, Any]:
        """Return the name and the value of a fact."""
        name, value = "", None
        for number, content in _fields(data):
            if number == _STAT_METADATA:
                name = self._stats.get(content, "")
            elif number == _STAT_TEXT:
                value = content.decode(errors="replace")
            elif number == _STAT_REFERENCE:
                value = self._stats.get(content, "")
            else:
                value = content
        return name, value


#: Begins the names of moments at which a pool of threads changes what it does.
_LISTENERS: Final = "ThreadpoolListener::"


def _program(data: bytes) -> dict[str, Instruction]:
    instructions = {}
    for module in _message(data).get(_HLO_MODULE, ()):
        for computation in _message(module).get(_MODULE_COMPUTATIONS, ()):
            for instruction in _message(computation).get(_COMPUTATION_INSTRUCTIONS, ()):
                message = _message(instruction)
                metadata = message.get(_INSTRUCTION_METADATA, [b""])[0]
                instructions[_text(message, _INSTRUCTION_NAME)] = Instruction(
                    opcode=_text(message, _INSTRUCTION_OPCODE),
                    op_name=_text(_message(metadata), _OP_NAME),
                )
    return instructions


def _message(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a message by the numbers of their fields."""
    fields: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        fields.setdefault(number, []).append(value)
    return fields


def _text(message: Mapping[int, list[Any]], number: int) -> str:
    values = message.get(number)
    return values[0].decode(errors="replace") if values else ""


def _number(message: Mapping[int, list[Any]], number: int) -> int:
    values = message.get(number)
    return int(values[0]) if values else 0


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Return numbers and values: whole numbers, or bytes of texts and messages.

    https://protobuf.dev/programming-guides/encoding/
    """
    place, end = 0, len(data)
    while place < end:
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, place = _varint(data, place)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"a field of the unknown kind {kind} at byte {place}")
        if place + size > end:
            raise ValueError(f"a field of {size} bytes at byte {place} of {end}")
        yield tag >> 3, data[place : place + size]
        place += size


_FIXED: Final = {1: 8, 5: 4}


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a whole number, and where it ends."""
    try:
        byte = data[place]
        if byte < 0x80:
            return byte, place + 1
        value, shift = byte & 0x7F, 7
        while True:
            place += 1
            byte = data[place]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place + 1
            shift += 7
    except IndexError:
        raise ValueError(f"it ends within a number at byte {place}") from None
