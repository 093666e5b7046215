from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs.clean import LINE_BYTES, Line, blocks, lines_with, untagged
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_writer import log
from tests.helpers.paddle_lines import paddleclas, plsc


def read(data: bytes, size: int = 1 << 20) -> LogResult:
    return extract_stream(io.BytesIO(data), "x_gpu1_bs16.log", ParseOptions(), size)


@pytest.mark.parametrize(
    "dirty",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("batch", "\0batch"),
        lambda text: "\0".join(f"\x1b[32m{text}\x1b[0m"),
        lambda text: "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n")),
        lambda text: "\n".join(f"2024-01-02T03:04:05.123456789Z {t}" for t in text.split("\n")),
        lambda text: "\n".join(
            f"2024-01-02T03:04:05.1+00:00 stdout F {t}" for t in text.split("\n")
        ),
        lambda text: "\n".join(f"[1,0]<stdout>:{line}" for line in text.split("\n")),
        lambda text: text.replace("batch:", "\x1b[38:5:208mbatch:\x1b(B\x1b[m"),
        lambda text: text.replace(" lr", " [1,0]<stdout>:lr"),
        lambda text: "\n".join(
            f"Tue Jun 14 15:40:18 2022[1,0]<stderr>:{t}" for t in text.split("\n")
        ),
    ],
)
def test_what_is_around_a_line_changes_nothing(dirty: object) -> None:
    clean = log(plsc)

    assert read(dirty(clean).encode()).throughput == read(clean.encode()).throughput == 32  # type: ignore[operator]


def test_broken_utf8_changes_nothing() -> None:
    data = log(plsc).encode().replace(b"INFO", b"\xff\xfe\xc3")

    assert read(data).throughput == 32


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_where_blocks_end_changes_nothing(size: int) -> None:
    data = log(paddleclas).encode()

    # A line longer than two blocks is cut, so the small sizes see no line whole.
    if size >= 100:
        assert read(data, size).throughput == read(data).throughput
    else:
        assert b"".join(blocks(io.BytesIO(data), size)).replace(b"\n", b"") == data.replace(
            b"\n", b""
        )


def test_a_tag_names_the_rank() -> None:
    assert untagged(b"[1,12]<stdout>:DLL x") == Line(b"DLL x", 12)
    assert untagged(b"[3]<stdout>:DLL x") == Line(b"DLL x", 3)
    assert untagged(b"[default3]:x") == Line(b"x", 3)


def test_each_line_comes_once_and_in_order_whatever_anchors_it_has() -> None:
    block = b"a 1\nnone\nb 2 a\na b 3\nb 4"

    assert [line.text for line in lines_with(block, (b"a", b"b"))] == [
        b"a 1",
        b"b 2 a",
        b"a b 3",
        b"b 4",
    ]


def test_a_long_line_is_cut() -> None:
    (line,) = lines_with(b"a" * 100_000, (b"a",))

    assert len(line.text) == LINE_BYTES
