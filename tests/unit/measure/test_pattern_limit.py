"""A user's pattern cannot hang: a search that takes too long is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs import user_pattern

pytestmark = pytest.mark.once

HEAD = r"step (?P<step>\d+) rate (?P<rate>\d+) "
#: Each would backtrack for hours or years, and only the last character shows it.
SLOW = {
    r"(\w+\s?)*$": "a" * 40 + "!",
    r"(\s*\w+)*$": "a" * 40 + "!",
    r"(a|aa)+$": "a" * 60 + "!",
    r"(.*a){20}$": "a" * 60 + "!",
    r"[^1!]*(\w\w?)*$": "b" * 300 + "1" * 60 + "!",
    r".*.*.*.*=": "1" * 8000,
}


@pytest.mark.parametrize("regex", SLOW)
def test_a_pattern_that_takes_too_long_is_refused(tmp_path: Path, regex: str):
    log = tmp_path / "x.log"
    log.write_text(f"step 1 rate 5 {SLOW[regex]}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest_dlperf.cli", "extract", "--pattern", HEAD + regex]

    ended = subprocess.run(
        [*command, str(log)], capture_output=True, text=True, timeout=100, check=False
    )

    assert ended.returncode == 2
    assert "takes too long on" in ended.stderr
    assert "open repetitions" in ended.stderr


def test_many_lines_that_each_take_long_are_too_much(monkeypatch: pytest.MonkeyPatch):
    """Each is below the limit of a line, and the log is not."""
    times = iter(range(10**9))
    monkeypatch.setattr(user_pattern.time, "thread_time", lambda: next(times) * 0.02)
    parse = user_pattern.format_of_pattern(pattern(HEAD)).parse
    line = b"step 1 rate 5 words"
    for _ in range(40):
        assert parse(line)
    with pytest.raises(UsageError, match=r"takes too long on the first \d+ bytes of the log"):
        list(map(parse, [line] * 20))


def test_an_ordinary_pattern_reads_long_lines_and_leaves_no_timer():
    parse = user_pattern.format_of_pattern(
        pattern(r"step (?P<step>\d+).*rate[=: ]*(?P<rate>\S+)")
    ).parse
    before = signal.getsignal(signal.SIGVTALRM)

    record = parse(b"step 7 " + b"word 12 " * 900 + b"rate=5.5")

    assert record is not None
    assert (record.step, record.rate) == (7, 5.5)
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_pattern_that_cannot_be_compiled_is_refused():
    with pytest.raises(UsageError, match="pattern"):
        pattern(HEAD + "a{99999999999999999999}")


def test_a_pattern_need_not_be_utf_8():
    parse = user_pattern.format_of_pattern(pattern(HEAD + os.fsdecode(b"caf\xe9"))).parse
    record = parse(b"step 1 rate 5 caf\xe9")
    assert record is not None
    assert record.step == 1
    assert parse(b"step 1 rate 5 cafe") is None
