from __future__ import annotations

import io
import json
import math
import os
import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.measure.logs.clean import BLOCK_BYTES
from pytest_dlperf.measure.logs.extract import extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.registry import formats
from tests.helpers.log_lines import WRITERS
from tests.helpers.log_writer import log
from tests.helpers.paddle_lines import paddleclas

pytestmark = pytest.mark.once

#: Some seconds of them; ``tox -e fuzz``, every night, sets many more.
EXAMPLES = int(os.environ.get("DLPERF_FUZZ_EXAMPLES", "2000"))
LINES = [writer(i, 0.5).encode() for _, writer in WRITERS for i in (0, 60, 149)]
NUMBER = re.compile(rb"\d+")
FLOAT = re.compile(rb"\d+(?:\.\d*)?")
BEYOND = [b"1e308", b"1e-308", b"-1e308", b"9" * 24, b"0", b"0.0000000000000001", b"nan", b"inf"]
LITERALS = [
    b"\n",
    b"\r",
    b"\0",
    b"\x1b[",
    b"[1,3]<stdout>:",
    b"9" * 400,
    b"1e999",
    b"-1",
    b"{",
    b"nan",
]
PIECES = st.sampled_from(LINES + LITERALS) | st.binary(max_size=20)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real line with its numbers and some of its bytes exchanged."""
    line = draw(st.sampled_from(LINES))
    number = draw(st.sampled_from([b"0", b"7", b"1" * 30, b"-3", b"1e400", b"0.0", b"", b"nan"]))
    line = NUMBER.sub(lambda m: number if draw(st.booleans()) else m[0], line, count=6)
    cut = draw(st.integers(0, len(line)))
    return line[:cut] + draw(st.binary(max_size=4)) + line[cut:]


def check(data: bytes, name: str | None, *, block: int = 256) -> None:
    fmt = None if name is None else formats()[name]
    options = ParseOptions(fmt=fmt, skip=1, world_size=2, batch_size_per_device=4)
    result = extract_stream(io.BytesIO(data), "x", options, block)
    values = result.to_json()
    json.dumps(values, allow_nan=False)
    rates = [values["throughput"], *(values["estimates"] or {}).values()]
    assert all(rate is None or (math.isfinite(rate) and rate > 0) for rate in rates)
    assert 0 <= (values["data_wait_share"] or 0) <= 1
    assert result.throughput is not None or result.problems


@pytest.mark.nightly  # the gate has its main way
@settings(deadline=None, max_examples=EXAMPLES)
@given(st.lists(mutated() | PIECES, max_size=40), st.sampled_from([None, *sorted(formats())]))
def test_any_bytes_give_a_result(pieces: list[bytes], name: str | None) -> None:
    check(b"\n".join(pieces), name)


@st.composite
def beyond_bounds(draw: st.DrawFn) -> tuple[str, bytes]:
    """A log of one format in which one number of most lines is beyond what can be."""
    name, writer = draw(st.sampled_from(WRITERS))
    lines = [writer(i, 0.5).encode() for i in range(40)]
    at = draw(st.integers(0, max(len(FLOAT.findall(line)) for line in lines) - 1))
    number = draw(st.sampled_from(BEYOND))
    since, until = draw(st.integers(0, 39)), draw(st.integers(0, 39))
    for i in range(since, until or 40):
        places = [match.span() for match in FLOAT.finditer(lines[i])]
        if at < len(places):
            start, end = places[at]
            lines[i] = lines[i][:start] + number + lines[i][end:]
    return name, b"\n".join(lines) + b"\n"


@pytest.mark.parametrize(
    ("name", "at", "number"),
    [
        ("paddleclas2021", 10, b"-1e308"),
        ("paddlenlp-trainer", 10, b"0"),
        ("mlperf", 4, b"1e308"),
        ("nemo", 7, b"1e308"),
        ("nemo", 9, b"1e308"),
        ("litgpt", 1, b"1e308"),
        ("litgpt", 2, b"9" * 24),
        ("verl", 10, b"-1e308"),
    ],
)
@pytest.mark.parametrize("begin", [0, 20])
def test_numbers_that_were_beyond_a_format(name: str, at: int, number: bytes, begin: int) -> None:
    for writer in (writer for other, writer in WRITERS if other == name):
        lines = [writer(i, 0.5).encode() for i in range(40)]
        for i, line in enumerate(lines):
            places = [match.span() for match in FLOAT.finditer(line)]
            if begin <= i and at < len(places):
                start, end = places[at]
                lines[i] = line[:start] + number + line[end:]
        check(b"\n".join(lines) + b"\n", name, block=1 << 14)


@settings(deadline=None, max_examples=EXAMPLES // 4)
@given(beyond_bounds())
def test_numbers_beyond_what_can_be(log: tuple[str, bytes]) -> None:
    check(log[1], log[0], block=1 << 14)


@pytest.mark.parametrize("size", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", sorted(formats()))
def test_a_hostile_line_takes_no_time(name: str, size: int) -> None:
    anchors = formats()[name].anchors
    hostile = [
        (b" ".join(anchors) + b" ") * (size // (sum(map(len, anchors)) + 2)),
        anchors[0] + b"1" * size,
        anchors[0] + b" " * size,
        b"\x1b[" * (size // 2),
    ]

    for line in hostile:
        started = time.process_time()
        check(line, name, block=BLOCK_BYTES)
        # A twentieth of this is its work; a pattern that backtracks would take hours.
        assert time.process_time() - started < size / 1_000_000


def test_memory_does_not_grow_with_the_log() -> None:
    text = log(paddleclas, iterations=1000).encode()

    class Endless(io.RawIOBase):
        left = 60

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return text if self.left > 0 else b""

    tracemalloc.start()
    extract_stream(Endless(), "x_gpu1", ParseOptions())  # type: ignore[arg-type]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 60e6
