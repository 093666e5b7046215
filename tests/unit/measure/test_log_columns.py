"""Read by columns or line by line: a log says the same."""

from __future__ import annotations

import io
import math
import random
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_dlperf.measure.logs.clean import plain
from pytest_dlperf.measure.logs.declare import Field, LogRecord, parser
from pytest_dlperf.measure.logs.digits import FewLines, Text, numbers_in
from pytest_dlperf.measure.logs.extract import LogResult, extract, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.records import Reader
from pytest_dlperf.measure.logs.registry import named
from pytest_dlperf.measure.logs.shapes import Shape
from pytest_dlperf.measure.logs.steady import count_at_once
from pytest_dlperf.measure.logs.trained import with_words
from tests.helpers.language_lines import deepspeed_chat, llmc
from tests.helpers.log_lines import WRITERS, megatron, mmseg, torchtitan
from tests.helpers.log_writer import BATCH, Writer
from tests.helpers.paddle_lines import paddleclas, paddleclas_dynamic, paddlevideo

pytestmark = pytest.mark.once


def both_ways(path: Path, name: str, **options: Any) -> tuple[LogResult, LogResult]:
    fmt = named(name)
    assert fmt.by_shape
    by_columns = extract(path, ParseOptions(fmt=fmt, **options))
    by_line = extract(path, ParseOptions(fmt=replace(fmt, by_shape=False), **options))
    return by_columns, by_line


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if where.endswith(".iterations_per_s_by_clock") and one and other:
        assert math.isclose(one, other, rel_tol=1e-3), where  # by columns some stamps are read
        return
    if where.endswith(".at_s"):
        return  # time stamps are read line by line alone, for the rule that needs them
    if isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-9, err_msg=where)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_same(value, other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_same(mine, theirs, f"{where}[{index}]")
    elif isinstance(one, float) and isinstance(other, float):
        assert math.isclose(one, other, rel_tol=1e-9), (where, one, other)
    else:
        assert one == other, where


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
@pytest.mark.parametrize("chatter", [0, 30])
def test_every_format(tmp_path: Path, name: str, writer: Writer, chatter: int):
    generator = random.Random(f"{name} {chatter}")
    lines = []
    # The clock of a bar only goes on.
    most = 0.401 if named(name).bar else 12.0
    for i in range(400):
        line = writer(i, generator.uniform(0.4, most))
        if name in {"deepspeed", "deepspeed-chat"}:
            # The writer of a line knows no mean of those before
            line = re.sub(r"AvgSamplesPerSec=[\d.]+", "AvgSamplesPerSec=-inf", line)
        lines.append(line)
        lines += [f"some other words {i} of step {k}" for k in range(chatter)]
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    by_columns, by_line = both_ways(path, name)
    assert by_line.iterations > 300
    assert_same(asdict(by_columns), asdict(by_line))


@pytest.mark.parametrize("averaging", ["running", "window", "iteration"])
def test_courses_of_all_kinds(tmp_path: Path, averaging: str):
    """Epochs, gaps, restarts, ranks that repeat each other, lines that say less."""
    writer = paddleclas if averaging == "running" else paddlevideo
    for seed in range(40):
        generator = random.Random(seed)
        lines, step = [], 0
        for _ in range(300):
            step += generator.choice([1, 1, 1, 10, 10, 0, -step if seed % 3 == 0 else 1])
            line = writer(step, generator.uniform(0.5, 0.6))
            if generator.random() < 0.02:
                line = line.replace("ips", "speed")
            lines.append(line.replace("epoch:0", f"epoch:{len(lines) // 120}"))
        path = tmp_path / "x_gpu1_bs16.log"
        path.write_text("\n".join(lines), encoding="utf-8")
        fmt = replace(named("paddleclas" if averaging == "running" else "paddlevideo"))
        fmt = replace(fmt, averaging=averaging)
        by_columns = extract(path, ParseOptions(fmt=fmt))
        by_line = extract(path, ParseOptions(fmt=replace(fmt, by_shape=False)))
        assert_same(asdict(by_columns), asdict(by_line), f"seed {seed}")


@pytest.mark.parametrize("interval", [1, 4, 10, 7])
@pytest.mark.parametrize("cut", [None, 18])
def test_a_mean_that_runs_on_into_the_next_epoch(tmp_path: Path, interval: int, cut: int | None):
    generator = random.Random(interval)
    lines, seconds, count = [], 0.0, 0
    for epoch in range(1, 21):
        # Of one that is cut short it is not known what its mean runs on with.
        for i in range(60 if epoch == cut else 93):
            if i == 5:
                seconds, count = 0.0, 0
            seconds, count = (
                seconds + generator.uniform(0.4, 0.5) * (9 if i == 0 else 1),
                count + 1,
            )
            batch = BATCH / 2 if i == 92 else BATCH
            if i % interval == 0:
                line = paddleclas_dynamic(i, seconds / count).replace(
                    "Epoch 1/1", f"Epoch {epoch}/20"
                )
                rate = line[line.index("ips: ") :].split()[1]
                lines.append(
                    line.replace(rate, f"{batch * count / seconds:.5f}").replace("/150]", "/93]")
                )
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    by_columns, by_line = both_ways(path, "paddleclas")
    assert_same(asdict(by_columns), asdict(by_line))
    assert by_line.throughput == pytest.approx(BATCH * 93 / (92 * 0.45 + 9 * 0.45), rel=0.03)


@pytest.mark.parametrize("writer", [paddleclas, paddleclas_dynamic])
def test_epochs_are_taken_in_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Writer
):
    found = []

    def watched(*arguments: Any) -> Any:
        found.append(count_at_once(*arguments))
        return found[-1]

    monkeypatch.setattr("pytest_dlperf.measure.logs.timeline.count_at_once", watched)
    lines = [
        writer(i, 0.5)
        .replace("epoch:0", f"epoch:{epoch}")
        .replace("Epoch 1/1", f"Epoch {epoch}/9")
        for epoch in range(1, 10)
        for i in range(0, 150, 10)
    ]
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = extract(path, ParseOptions())
    assert found
    assert None not in found
    assert result.throughput == pytest.approx(BATCH / 0.5)


def learnt(line: str, name: str = "paddleclas") -> Shape | None:
    """Return the shape of a line that came often enough."""
    reader = Reader(named(name))
    reader.columns(f"{line}\n".encode() * 16)
    return next(iter(reader.shapes.values()), None)


def test_a_shape_knows_where_the_numbers_are():
    line = paddleclas(12, 0.5)
    found = learnt(line)
    assert found is not None
    assert found.is_record
    number = found.rules["seconds"].number
    runs = re.findall(r"\d+", line)
    assert [runs[i] for i in (*number.whole, number.decimals or 0)] == ["0", "50000"]


def test_numbers_are_those_of_float():
    generator = random.Random(7)
    lines = [plain(paddlevideo(i, generator.uniform(0.01, 900)).encode()) for i in range(500)]
    fmt = named("paddlevideo")
    columns = Reader(fmt).columns(b"\n".join(lines) + b"\n")
    assert columns.length == 500
    for index, line in enumerate(lines):
        assert columns.row(index)[:2] == (fmt.parse(line), None)


@pytest.mark.parametrize("per", [1000, 0.001, 2.0**-30])
def test_a_unit_is_taken_as_the_parser_takes_it(per: float):
    """To the last bit: which digits the parser is asked about does not matter."""
    parse = parser(Field(rb"step "), rate=Field(rb"rate ", per=per))
    fmt = replace(named("paddlevideo"), parse=parse, anchors=(b"step",))
    lines = [b"step %d rate 0.%03d\n" % (i, 900 - i) for i in range(500)]
    records = [*map(parse, lines)]
    rates = [record.rate for record in records if record is not None]
    for begin in range(0, 500, 50):  # each part has another first line
        columns = Reader(fmt).columns(b"".join(lines[begin : begin + 50]))
        assert columns["rate"].tolist() == rates[begin : begin + 50]


def test_lines_without_a_shape_are_between_those_that_have_one():
    def parse(line: bytes) -> LogRecord | None:
        # As where a number has another meaning from some length on.
        record = named("paddlevideo").parse(line)
        return None if record is None or b"loss: 12" in line else record

    fmt, lines = replace(named("paddlevideo"), parse=parse), []
    for i in range(160):
        line = paddlevideo(i, 0.5)
        lines.append(plain((line if i % 7 else line.replace("loss: ", "loss: 1")).encode()))
    reader = Reader(fmt)
    columns = reader.columns(b"\n".join(lines) + b"\n")
    parsed = [record for line in lines if (record := fmt.parse(line)) is not None]
    assert [columns.row(i).record for i in range(columns.length)] == parsed


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.from_regex(r"\A[0-9]{1,20}(,[0-9]{3}){0,2}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?\Z"),
    st.from_regex(r"\A[0-9]{1,20}(,[0-9]{3}){0,2}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?\Z"),
)
@example("1", "22")
@example("1,234.5", "1,234.25")
@example("9007199254740993", "0.1234567890123456789")
@example("1.5e-07", "1.25E+22")
@example("0.24735180123456789", "53.701882345678901")
@example("9007199254740993.0", "4503599627370497.5")
def test_a_number_is_what_float_reads(first: str, second: str):
    numbers = (first, second)
    text = Text("".join(f"{number} of 2\n" for number in numbers).encode())
    groups = text.lines_by_skeleton(2)
    assert groups is not None
    for skeleton, lines in groups.items():
        number = next(numbers_in(skeleton))
        for index, value in zip(lines.lines.tolist(), lines.values(number).tolist(), strict=True):
            if "," in numbers[index] and numbers[index].startswith("0"):
                assert math.isnan(value)
            else:
                assert value == float(numbers[index].replace(",", ""))
        few = FewLines([text.line(index) for index in lines.lines.tolist()])
        np.testing.assert_array_equal(few.values(number), lines.values(number))
        np.testing.assert_array_equal(few.sizes, lines.sizes)


def test_a_comma_after_a_0_is_read_as_the_parser_reads_it():
    fmt = named("torchtitan")
    lines = [torchtitan(i, BATCH / (1000 + i)) for i in range(100)]
    lines = [
        line.replace("tps: 1,", "tps: 0,") if i % 7 == 2 else line for i, line in enumerate(lines)
    ]
    text = plain("".join(f"{line}\n" for line in lines).encode())
    reader = Reader(fmt)
    columns = reader.columns(text)
    parsed = [fmt.parse(line) for line in text.splitlines()]
    assert any(shape is not None for shape in reader.shapes.values())
    assert columns["rate"].tolist() == [record.rate for record in parsed if record is not None]


@pytest.mark.parametrize("most_shapes", [0, 100])
def test_lines_of_one_skeleton_are_found_by_either_way(most_shapes: int):
    lines = [f"it {i} took {i * 7919 % 1000 / 8} s of {10 ** (i % 5)}" for i in range(300)]
    text = Text("".join(f"{line}\n" for line in lines).encode())
    groups = text.lines_by_shape(most_shapes) if most_shapes else text.lines_by_skeleton(3)
    assert groups is not None
    steps: dict[int, float] = {}
    for skeleton, these in groups.items():
        number = next(numbers_in(skeleton))
        steps |= dict(zip(these.lines.tolist(), these.values(number).tolist(), strict=True))
    assert steps == {i: i for i in range(300)}


def test_words_of_a_skipped_update_on_the_line_of_a_record_are_heard(tmp_path: Path):
    skips = " overflow detected, skipping step"
    lines = [f"{paddlevideo(i, 0.5)}{skips if i % 5 == 0 else ''}" for i in range(400)]
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    for result in both_ways(path, "paddlevideo"):
        assert result.throughput is None
        assert "not-trained" in {problem.code for problem in result.problems}


def test_records_have_the_rank_of_their_line():
    fmt = named("paddlevideo")
    lines = [f"[1,{i % 2}]<stdout>:{paddlevideo(i // 2, 0.5)}".encode() for i in range(8)]
    columns = Reader(fmt).columns(plain(b"\n".join(lines) + b"\n"))
    assert columns["rank"].tolist() == [0, 1] * 4
    assert columns["step"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_depends_on_the_digits_is_read_line_by_line():
    def parse(line: bytes) -> LogRecord | None:
        # Only rank 0's lines are records.
        return LogRecord(step=int(line[-4:]), rate=1.0) if b"rank 0" in line else None

    fmt = replace(named("paddleclas"), parse=parse, anchors=(b"rank",))
    reader = Reader(fmt)
    text = b"".join(b"rank %d step %04d\n" % (i % 2, i) for i in range(64))
    assert reader.columns(text)["step"].tolist() == [*range(0, 64, 2)]
    assert reader.shapes == {b"rank 0 step 0\n".strip(): None}


def test_a_file_of_many_shapes_is_read_line_by_line():
    fmt = named("paddlevideo")
    reader = Reader(fmt)
    lines = [f"{'word ' * (i + 1)}{paddlevideo(i, 0.5)}".encode() for i in range(600)]
    columns = reader.columns(plain(b"\n".join(lines)) + b"\n")
    assert [columns.row(i).record.step for i in range(columns.length)] == list(range(600))
    assert not reader.shapes


def test_a_block_that_ends_with_an_evaluation_is_as_any_other():
    lines = []
    for i in range(120):
        lines.append(mmseg(i, 90.0 if i == 60 else 0.5))
        if i == 59:
            lines.append("2022-02-10 06:23:28,248 - mmseg - INFO - Iter(val) [100] mIoU: 0.41")
    data = ("\n".join(lines) + "\n").encode()
    size = data.index(b"\n", data.index(b"Iter(val)")) + 1
    options = ParseOptions(world_size=1, batch_size_per_device=16)
    whole = extract_stream(io.BytesIO(data), "x", options)
    cut = extract_stream(io.BytesIO(data), "x", options, size)
    assert whole.throughput == pytest.approx(BATCH * 2)
    assert cut.throughput == whole.throughput


def test_a_block_without_a_record_has_no_columns():
    lines = [f"[TRAIN] words without a number, line {i}" for i in range(10, 90)]
    columns = Reader(named("paddleseg")).columns("".join(f"{line}\n" for line in lines).encode())
    assert columns.length == 0
    assert "step" not in columns


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_every_format_is_read_by_columns(name: str, writer: Writer):
    reader = Reader(with_words(named(name).for_log()))
    running = named(name).averaging == "running"
    lines = [writer(i, 0.25 if running else 0.25 + i % 7 / 10) for i in range(600)]
    columns = reader.columns(plain("\n".join(lines).encode() + b"\n"))
    assert columns.length > 500
    assert reader.shapes
    assert None not in reader.shapes.values()


def test_a_quotient_with_0_is_no_record():
    line = megatron(5, 0.5).replace("(ms): 500.0", "(ms): 0.0").encode()
    assert named("megatron").parse(line) is None


def test_digits_of_a_word_are_those_of_the_word():
    lines = [llmc(i, 0.2 + i / 1000) for i in range(600)]
    lines[300:310] = [line.replace("bf16", "bf99") for line in lines[300:310]]
    fmt = named("llm.c")
    columns = Reader(fmt).columns(plain("\n".join(lines).encode() + b"\n"))
    parsed = [fmt.parse(line.encode()) for line in lines]
    assert [columns.row(i).record for i in range(columns.length)] == parsed
    assert np.isnan(columns["mfu"]).sum() == 10


def test_an_anchor_is_looked_for_with_its_digits():
    fmt = named("deepspeed-chat")
    lines = plain("\n".join(deepspeed_chat(i, 0.5) for i in range(300)).encode()).split(b"\n")
    lines = [
        other
        for line in lines
        for other in ([line.replace(b"E2E", b"E3E"), line] if b"E2E" in line else [line])
    ]
    columns = Reader(fmt).columns(b"\n".join(lines) + b"\n")
    by_line = Reader(replace(fmt, by_shape=False)).columns(b"\n".join(lines) + b"\n")
    assert columns["rate"].tolist() == pytest.approx(by_line["rate"].tolist(), nan_ok=True)
