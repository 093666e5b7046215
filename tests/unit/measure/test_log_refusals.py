"""What is said of a log that is not read, and whether the pattern that is shown reads it."""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from pytest_dlperf.cli import extract as command
from pytest_dlperf.measure.logs.extract import LogResult, extract, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.unit.measure.test_log_scale import codes, message, read


def refused(path: Path, content: bytes) -> LogResult:
    path.write_bytes(content)
    result = extract(path, ParseOptions())
    assert result.throughput is None
    return result


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("train.log", "step 1\n")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"step 1\n", mtime=0), "gzip; decompress it"),
        (bz2.compress(b"step 1\n"), "bzip2; decompress it"),
        (lzma.compress(b"step 1\n"), "xz; decompress it"),
        (b"\x28\xb5\x2f\xfd rest", "zstd; decompress it"),
        (zipped(), "a zip archive; unpack it"),
        (bytes(range(1, 30)) * 40, "binary"),
    ],
)
def test_a_file_that_is_no_log_is_said_to_be_what_it_is(
    tmp_path: Path, content: bytes, said: str
) -> None:
    result = refused(tmp_path / "train.log", content)

    assert codes(result) == {"unreadable-log"}
    assert said in message(result, "unreadable-log")


def lines(form: str, count: int = 100) -> str:
    return "".join(
        form.format(i=i, mark=i % 7, stamp=f"10:{i // 60:02d}:{i % 60:02d}")
        for i in range(1, count + 1)
    )


#: Lines of programs that are not known, and what the pattern that is shown makes of them.
READ = {
    "update {i}: objective 2.{mark}, took 500.00ms\n": 2.0,
    "[{i}/9000] step={i} loss=2.{mark} tok/sec: 13,172\n": 13172.0,
    "epoch 1 | batch {i}/500 | 0.25 s/it | loss 3.{mark}\n": 4.0,
    '{{"step": {i}, "loss": 2.{mark}, "samples_per_second": 512.5}}\n': 512.5,
    "step {i} loss 2.{mark}\nother words\nspeed: 12.5 images/sec\n": 12.5,
    "Epoch 1/9 my train loop:  39%|###   | {i}/900 [00:08<00:12, 127.70it/s]\n": 127.7,
    "{stamp} batch {i} loss 2.{mark}\n": 1.0,
    "Fit: 0 [ {i}/ 1251 (  4%)]  Time: 0.250s, 16 files\n": 4.0,
    "steps: {i} loss: 2.{mark} iter time (s): 0.398 samples/sec: 158.75\n": 158.75,
    "steps:  {i}%|###  | {i}/9000 [02:39<00:00,  1.25it/s, avr_loss=0.12{mark}]\n": 1.25,
    "Step {i} | loss:1.{mark} lr:2e-05 tokens_per_second_per_gpu:4956.747 peak:20.1 \n": 4956.747,
    "Epoch:[  1/  1], step:[  {i}/ 1000], loss: 2.{mark}, per_step_time: 500ms, lr: 0\n": 2.0,
    "I0304 11:00:01.5 1399 writer.py:48] [{i}] loss=1.{mark}, steps_per_sec=3.25\n": 3.25,
    "iter {i} total time: {i}.00 s, step time: 0.50 s\n": 2.0,
}


def shown(result: LogResult) -> list[str]:
    """Return the options that a refusal shows."""
    match = re.search(r"(?:read|took) by (--pattern=.*)", message(result, "unknown-format"))
    assert match is not None, result.problems
    return [word for word in shlex.split(match[1]) if word.startswith("--") and "=" in word]


@pytest.mark.parametrize(("form", "rate"), READ.items(), ids=[form.strip() for form in READ])
def test_the_pattern_that_is_shown_reads_the_log(tmp_path: Path, form: str, rate: float) -> None:
    path = tmp_path / "train.log"
    options = shown(refused(path, lines(form).encode()))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]

    asked = command.parse_options(parser.parse_args([str(path), *options, *sizes]))

    assert extract(path, asked).throughput == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("loss 2.{mark}\n", "none has a rate, the time of an iteration, or a time stamp"),
        ("step {i} loss 2.{mark}\n", "'step 100 loss 2.2' has a step alone"),
        ("{i} loss 2.{mark} 12 images/sec\n", "no step is near it"),
        ("Loading: 30%|##  | 3/3 [00:01<00:00, 2.82it/s]\n", "nothing shows to be training's"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, form: str, said: str) -> None:
    result = refused(tmp_path / "train.log", lines(form).encode())

    assert said in message(result, "unknown-format")
    assert "--pattern" not in message(result, "unknown-format")


def test_no_pattern_is_shown_that_reads_evaluation_as_well(tmp_path: Path) -> None:
    bar = "Epoch {i}: 39%|###   | {i}/900 [00:08<00:12, 127.70it/s]\n"

    result = refused(tmp_path / "train.log", lines("[Eval] Best at " + bar).encode())

    assert "--pattern" not in message(result, "unknown-format")


def test_a_stream_that_cannot_be_read_again_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    result = extract_stream(Pipe(b"words\n"), "train.log", ParseOptions())

    assert codes(result) == {"unknown-format"}


OVER_LINES = "[step={i}/2500,epoch=0]\n  loss=2.5\n  throughput/tokens_per_second={rate}\n"


@pytest.mark.parametrize(
    "regexes",
    [
        (r"step=(?P<step>\d+)/", r"per_second=(?P<rate>[\d,]+)"),
        (r"step=(?P<step>\d+)/|per_second=(?P<rate>[\d,]+)",),
        (r"per_second=(?P<rate>\S+)", r"loss=(?P<loss>\S+)", r"step=(?P<step>\d+)/"),
    ],
)
def test_a_record_over_several_lines_is_read_by_several_patterns(
    tmp_path: Path, regexes: tuple[str, ...]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "".join(OVER_LINES.format(i=i, rate="47,941") for i in range(10, 1000, 10)),
        encoding="utf-8",
    )
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = [word for regex in regexes for word in ("--pattern", regex)]

    result = extract(path, command.parse_options(parser.parse_args([str(path), *options])))

    assert result.throughput == pytest.approx(47941)
    assert result.iterations == 990 - 50


def test_a_rate_before_the_first_step_belongs_to_none(tmp_path: Path) -> None:
    text = "speed 99 it/s\n" + "".join(f"step {i}\nspeed 2 it/s\n" for i in range(1, 100))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = [
        "--pattern",
        r"step (?P<step>\d+)",
        "--pattern",
        r"speed (?P<rate>\S+) it",
        "--skip=0",
    ]

    asked = command.parse_options(parser.parse_args(options))
    first, second = (read(tmp_path / name, text, fmt=asked.fmt, skip=0) for name in "ab")

    assert first.throughput == second.throughput == pytest.approx(2)
