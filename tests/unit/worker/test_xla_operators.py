"""Operators of programs that XLA compiled, in what was recorded of JAX.

Recorded by JAX 0.10 on CPUs, two steps each, and made small: events and facts that are not used
are left out. ``jax_two_devices`` is a process with two, ``jax_two_processes`` one of two.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pytest_dlperf.core.wire_profile import ProfiledOperator, ProfiledWindow
from pytest_dlperf.worker.step_parts import (
    COMMUNICATION,
    COMPUTE,
    launches_of,
    operators_of,
    windows_of,
)
from pytest_dlperf.worker.xla_operators import place_of, xla_events
from pytest_dlperf.worker.xplane import XSpace

RECORDED = Path(__file__).parent / "recorded"
NAMES = ("jax_two_devices", "jax_two_processes")


def recorded(name: str) -> XSpace:
    return XSpace(gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes()))


def read(space: XSpace) -> tuple[list[ProfiledWindow], list[ProfiledOperator]]:
    events = xla_events(space)
    steps = [
        ((event.begin_us, event.end_us), 1)
        for line in space.lines()
        for event in line.events
        if event.name == "dlperf.step"
    ]
    assert len(steps) == 2
    return windows_of(events, steps), operators_of(events, steps)


@pytest.mark.parametrize("name", NAMES)
def test_operators_have_the_scopes_that_the_program_gave_them(name: str):
    """Of one device, also where the process has two."""
    _, operators = read(recorded(name))
    calls = {(one["path"], one["name"]): one["calls"] for one in operators}
    assert calls["hidden", "dot_general"] == 1
    assert calls["out", "dot_general"] == 1
    assert calls["hidden (backward)", "dot_general"] == 1
    assert calls["out (backward)", "dot_general"] == 2
    assert calls["hidden", "max"] == 1
    assert calls["", "sub"] == 2, "the update of two parameters"
    assert calls["", "all-reduce"] == 1
    parts = {one["name"]: one["part"] for one in operators}
    assert parts["all-reduce"] == COMMUNICATION
    assert {part for name, part in parts.items() if name != "all-reduce"} == {COMPUTE}


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up_to_the_step(name: str):
    windows, _ = read(recorded(name))
    for window in windows:
        assert window["seconds"] == sum(window["parts"].values())
        assert {COMPUTE, COMMUNICATION, "Python and launches"} <= set(window["parts"])
    assert launches_of(xla_events(recorded(name)), [((0, 1e9), 1)]) is None, "there is no GPU"


def test_of_several_devices_the_one_is_read_that_the_others_wait_for():
    space = recorded("jax_two_devices")
    of_devices = {
        device: sum(
            event.end_us - event.begin_us
            for line in space.lines()
            for event in line.events
            if event.facts.get("device_ordinal") == device and "reduce" in event.name
            if event.name == "all-reduce"
        )
        for device in (0, 1)
    }
    found = [e for e in xla_events(space) if e.name == "all-reduce"]
    waited_us = sum(event.end_us - event.begin_us for event in found)
    assert waited_us == pytest.approx(min(of_devices.values()))
    assert of_devices[0] != of_devices[1]


def test_an_instruction_lasts_until_its_end_on_any_thread():
    """Its function returns when its threads have work, and another of them may end it."""
    space = recorded("jax_two_processes")
    ends = {
        event.facts["_c"]: event.end_us
        for line in space.lines()
        for event in line.events
        if event.name.startswith("end: ")
    }
    found = sorted(event.end_us for event in xla_events(space))
    for line in space.lines():
        for event in line.events:
            if "hlo_op" in event.facts:
                assert max(event.end_us, ends[event.facts["_p"]]) in found


def test_kernels_on_a_gpu_belong_to_the_operators_that_start_them():
    """The events are made up as XLA's plugin for CUDA names them: nothing was recorded there."""
    kernel = message(event(1, 5, 9, hlo_op="dot.1", hlo_module="jit_f"))
    copy = message(event(2, 9, 10))
    space = XSpace(plane("/device:GPU:0", {1: "sgemm", 2: "MemcpyD2H"}, kernel + copy))
    events = xla_events(space)
    assert [one.name for one in events if one.on_device] == ["sgemm", "MemcpyD2H"]
    steps = [((0.0, 20.0), 1)]
    [operator] = operators_of(events, steps)
    assert operator["name"] == "dot_general"
    assert (operator["seconds"], operator["kernels"]) == (pytest.approx(4e-6), ["sgemm"])
    assert launches_of(events, steps) == 2
    [window] = windows_of(events, steps)
    assert window["parts"] == pytest.approx(
        {COMPUTE: 4e-6, "exposed copies": 1e-6, "Python and launches": 15e-6}
    )


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message; numbers and lengths are below 128, or of two bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def message(content: bytes) -> bytes:
    return field(4, content)


FACTS = {"hlo_op": 1, "hlo_module": 2}


def event(name: int, begin_us: int, end_us: int, **facts: str) -> bytes:
    times = field(2, begin_us * 10**6) + field(3, (end_us - begin_us) * 10**6)
    stats = [field(4, field(1, FACTS[f]) + field(5, text.encode())) for f, text in facts.items()]
    return field(1, name) + times + b"".join(stats)


def plane(name: str, names: dict[int, str], events: bytes) -> bytes:
    """Return a recording of one plane, with one stream."""
    line = field(2, b"Stream #13(Compute)") + events
    entries = [(4, number, text) for number, text in names.items()]
    entries += [(5, number, text) for text, number in FACTS.items()]
    metadata = [
        field(kind, field(1, number) + field(2, field(2, text.encode())))
        for kind, number, text in entries
    ]
    return field(1, field(2, name.encode()) + field(3, line) + b"".join(metadata))


@pytest.mark.parametrize(
    ("op_name", "place"),
    [
        ("jit(f)/jvp(Net)/Dense_0/dot_general", ("Net.Dense_0", "dot_general")),
        ("jit(f)/transpose(jvp(Net))/Dense_0/add", ("Net.Dense_0 (backward)", "add")),
        ("jit(f)/shard_map/psum", ("", "psum")),
        ("jit(f)/transpose(jvp())/mul", ("(backward)", "mul")),
        ("jit(f)/while/body/closed_call/block/jit(relu)/max", ("block", "max")),
        ("jit(f)/jvp(a/b)/checkpoint/rematted_computation/exp", ("a.b", "exp")),
        ("", ("", "")),
    ],
)
def test_the_place_of_an_operation(op_name: str, place: tuple[str, str]):
    assert place_of(op_name) == place
