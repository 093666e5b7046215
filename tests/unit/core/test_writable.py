"""Text from outside becomes text that UTF-8 and databases can write, and no exception stops it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_dlperf.core.writable import (
    error_words,
    line_begin,
    traceback_words,
    unforeseen,
    writable_values,
)
from pytest_dlperf.measure.records import read_records
from pytest_dlperf.worker.failure import WorkerFailure, failure_record
from pytest_dlperf.worker.records import RecordWriter


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Number(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


def noted() -> Exception:
    error = ValueError("x")
    error.__notes__ = 3  # type: ignore[attr-defined]
    return error


def nested() -> Exception:
    error: Exception = ValueError("the first")
    for number in range(200):
        error, error.__cause__ = KeyError(number), error
    return error


ERRORS = [
    FileNotFoundError(2, "No such file", os.fsdecode(b"caf\xe9")),
    ValueError("\ud800 and \0"),
    UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "invalid start byte"),
    SyntaxError("odd", ("file", "not a number", None, 3)),  # type: ignore[arg-type]
    Silent(),
    Number(),
    WorkerFailure("batch-mismatch", os.fsdecode(b"caf\xe9")),
    noted(),
    nested(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_exception_becomes_a_record_that_is_read_and_written(
    tmp_path: Path, error: Exception
):
    writer = RecordWriter(tmp_path, 0)
    writer.write(failure=failure_record(error))
    writer.close()
    [rank] = read_records(tmp_path)
    failure = rank.by_kind["failure"]
    for text in (*map(str, failure.values()), error_words(error), unforeseen(error)):
        assert "\0" not in text.encode().decode()
    assert failure["message"].strip()
    assert len(traceback_words(error).splitlines()) < 60


def test_other_records_are_writable_too(tmp_path: Path):
    """A rank's variables are names of files, now and then."""
    line = json.dumps({"rank": 0, "record": "settings", "variables": {"A\ud800": ["\0b", 1.5]}})
    (tmp_path / "rank00000.jsonl").write_text(f"[]\n{{}}\nnull\n{line}\n", encoding="utf-8")
    (tmp_path / "rankX.jsonl").write_text("{}", encoding="utf-8")
    [rank] = read_records(tmp_path)
    settings: object = rank.by_kind["settings"]
    assert settings == {"rank": 0, "variables": {r"A\ud800": [r"\x00b", 1.5]}}


def test_the_middle_of_a_very_long_text_is_left_out(tmp_path: Path):
    message = "the first " + "word " * 100_000 + "last"
    writer = RecordWriter(tmp_path, 0)
    writer.write(failure=failure_record(ValueError(message)))
    writer.close()
    # As a program that writes its records itself
    line = json.dumps({"rank": 1, "record": "failure", "message": "x" * 5_000_000})
    (tmp_path / "rank00001.jsonl").write_text(line, encoding="utf-8")
    ours, own = (rank.by_kind["failure"] for rank in read_records(tmp_path))
    for text in (ours["message"], ours["traceback"], own["message"]):
        assert len(text) < 10_000
        [middle] = [line for line in text.splitlines() if line.endswith("are left out)")]
        assert int(middle[1:].split()[0]) > 400_000
    begin, _, end = ours["message"].splitlines()
    assert begin.startswith("ValueError: the first word word")
    assert begin.endswith("word")
    assert end.startswith("word")
    assert end.endswith("word last")
    assert len(unforeseen(ValueError(message))) < 20_000


def test_what_can_be_written_stays():
    values = {"ä": ["\n\t\x1b", "\U0001f600", 1, None, {"b": True}]}
    assert writable_values(values) == values


def test_a_line_is_cut_where_no_word_is_left_in_part():
    assert line_begin("a b", 3) == "a b"
    assert line_begin("at hf_secret, and on", 9) == "at"
    assert line_begin("hf_secret and", 9) == "hf_secret"
    assert line_begin("x" * 500, 400) == "x" * 400
