"""An error that nobody foresaw ends its case, with its traceback, and no other one."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

#: A fault for each case, by its batch: while a run is read, in rounds; while its parent's is;
#: while it is judged; when the session has its outcome. The case of 64 has none.
FAULTS = """
from pytest_dlperf.flow import pipeline, runner
from pytest_dlperf.session.measurer import Measurer

def planted(owner, name, error, batch, layout="1n1c", position=0):
    whole = getattr(owner, name)
    def faulty(*arguments, **options):
        case = getattr(arguments[position], "case", arguments[position])
        if case.batch_size_per_device == batch and str(case.layout) == layout:
            raise error
        return whole(*arguments, **options)
    setattr(owner, name, faulty)

class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError

planted(runner, "summarise", KeyError("record"), 4)
planted(runner, "summarise", Unprintable(), 8)
planted(pipeline, "judge", RecursionError("caf\\udce9"), 16)
planted(Measurer, "_judged", AttributeError("shift"), 32, position=1)
"""
TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", suite="net", runs=2,
                    batch_size_per_device=[4, 16, 32, 64])
def test_net(dlperf):
    dlperf.run()

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n2c", suite="net", runs=2,
                    batch_size_per_device=8)
def test_with_a_parent(dlperf):
    dlperf.run()
"""
SAID = {
    4: "KeyError: 'record'",
    8: "Unprintable: (its message cannot be printed: ZeroDivisionError)",
    16: r"RecursionError: caf\udce9",
    32: "AttributeError: shift",
}


@pytest.mark.slow
def test_each_ends_its_own_case(suite: Suite):
    suite.write(TESTS)
    suite.write_file("faults.py", FAULTS)
    result, outcomes = suite.outcomes("-p", "faults", "--junitxml=j.xml")
    assert result.ret == 1
    by_batch = {one["case"]["batch_size_per_device"]: one for one in outcomes.values()}
    assert by_batch.pop(64)["judgement"]["verdict"] == "no-baseline"
    assert sorted(by_batch) == sorted(SAID)
    for batch, outcome in by_batch.items():
        reason = outcome["judgement"]["reason"]
        assert outcome["judgement"]["verdict"] == "error"
        assert outcome["failed"]
        assert SAID[batch] in reason
        assert "in faulty\n    raise error" in reason, "it has no traceback"
    # What was measured before is kept
    assert by_batch[32]["measurement"]["runs"]
    [junit] = ElementTree.parse(suite.path / "j.xml").getroot()
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("5", "4", "0")


ENDED = {
    4: "CancelledError",
    8: "OfAStranger: stop",
    16: "Exits: (its message cannot be printed: SystemExit)",
    32: "CancelledError: late",
}
#: No ``Exception``s: in rounds, in the test, and as the words of one are made.
ENDINGS = """
import asyncio
from pytest_dlperf.flow import runner
from pytest_dlperf.session.measurer import Measurer
from faults import planted

class OfAStranger(BaseException):
    pass

class Exits(ValueError):
    def __str__(self):
        raise SystemExit("in __str__")

planted(runner, "summarise", asyncio.CancelledError(), 4)
planted(runner, "summarise", OfAStranger("stop"), 8)
planted(runner, "summarise", Exits(), 16)
planted(Measurer, "_judged", asyncio.CancelledError("late"), 32, position=1)
"""


@pytest.mark.slow
def test_an_exception_that_is_no_exception_ends_its_own_case(suite: Suite):
    """The session goes on in rounds and in tests, and each case has one outcome."""
    suite.write(TESTS)
    suite.write_file("faults.py", FAULTS.partition("\nclass ")[0])
    suite.write_file("endings.py", ENDINGS)
    result, outcomes = suite.outcomes("-p", "endings", "--junitxml=j.xml")
    assert result.ret == 1
    by_batch = {one["case"]["batch_size_per_device"]: one for one in outcomes.values()}
    verdicts = {batch: one["judgement"]["verdict"] for batch, one in by_batch.items()}
    assert verdicts.pop(64) == "no-baseline"
    assert verdicts == dict.fromkeys(ENDED, "error")
    for batch, words in ENDED.items():
        assert by_batch[batch]["failed"]
        assert words in by_batch[batch]["judgement"]["reason"]
    [junit] = ElementTree.parse(suite.path / "j.xml").getroot()
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("5", "4", "0")


PROGRAM = """
import os, sys, time
from pathlib import Path
from pytest_dlperf.mark import step

class Unprintable(Exception):
    def __str__(self):
        return 3

for done in range(20):
    with step() as one:
        time.sleep(0.002)
        one.loss(1 / (done + 1))
        if done == 10 and "bad" in sys.argv:
            # Files that are nobody's of ours, in the folder of the run
            Path(os.environ["DLPERF_RUN"], "rankX.jsonl").write_text("{}")
            Path(os.environ["DLPERF_RUN"], "supervisor.json").write_text("{")
            # As os.listdir has the name of a file that is not in UTF-8
            name = "/data/caf" + os.fsdecode(b"\\xe9\\0")
            if "long" in sys.argv:
                raise ValueError("unexpected batch: " + "0.1234, " * 600_000)
            raise Unprintable() if "unprintable" in sys.argv else OSError(name)
"""
PROGRAMS = """
import pytest
OPTIONS = dict(framework=None, layout="1n1c", batch_size_per_device=8, iterations=20, warmup=5,
               runs=2)

@pytest.mark.dlperf(command=["python", "w.py", "bad"], suite="latin", **OPTIONS)
def test_latin(dlperf):
    dlperf.run()

@pytest.mark.dlperf(command=["python", "w.py", "bad", "unprintable"], suite="silent", **OPTIONS)
def test_silent(dlperf):
    dlperf.run()

@pytest.mark.dlperf(command=["python", "w.py", "bad", "long"], suite="long", **OPTIONS)
def test_long(dlperf):
    dlperf.run()

@pytest.mark.dlperf(command=["python", "w.py"], suite="fine", **OPTIONS)
def test_fine(dlperf):
    dlperf.run()
"""
REPORTS = ("html", "md", "metrics", "benchmark-json")


@pytest.mark.slow
def test_text_that_cannot_be_written_is_written_in_escapes(suite: Suite):
    """In a message, and in variables that are recorded; it crosses xdist to every report.

    A message of 5 MB in one line is cut in all of them, and patterns that look at it come to an
    end.
    """
    suite.write(PROGRAMS)
    suite.write_file("w.py", PROGRAM)
    suite.environment["NCCL_ODD"] = "a\udcffb"
    reports = [f"--dlperf-{kind}=report.{kind}" for kind in REPORTS]
    result, outcomes = suite.outcomes("--junitxml=j.xml", *reports, "-n2")
    assert result.ret == 1, result.stdout.str()
    by_suite = {one["case"]["suite"]: one for one in outcomes.values()}
    reasons = {suite: one["judgement"]["reason"] for suite, one in by_suite.items()}
    assert r"OSError: /data/caf\udce9\x00" in reasons["latin"]
    assert "Unprintable: (its message cannot be printed: TypeError)" in reasons["silent"]
    assert by_suite["fine"]["measurement"]["runs"]
    assert by_suite["fine"]["environment"]["software"]["NCCL_ODD"] == r"a\udcffb"
    assert "ValueError: unexpected batch: 0.1234, " in reasons["long"]
    assert " characters are left out)" in reasons["long"]
    texts = [(suite.path / name).read_text(encoding="utf-8") for name in ("r.json", "j.xml")]
    for text in (*texts, result.stdout.str()):
        assert " characters are left out)" in text
        assert "0.1234, " * 1000 not in text
    for kind in REPORTS:
        assert (suite.path / f"report.{kind}").stat().st_size < 2**20
        text = (suite.path / f"report.{kind}").read_text(encoding="utf-8")
        assert (r"caf\udce9" in text) == (kind in {"html", "md"})
    ElementTree.parse(suite.path / "j.xml")


@pytest.mark.slow
def test_results_are_whole_where_another_report_cannot_be_made(suite: Suite):
    suite.write_file(
        "faults.py",
        "from pytest_dlperf.report import json_\n"
        "def write(path, outcomes):\n    raise KeyError('so far')\n"
        "json_.write = write\n"
        "from pytest_dlperf.report.page import session_page\n"
        "def render(outcomes):\n    raise KeyError('chart')\n"
        "session_page.render = render\n"
        "from pytest_dlperf.session.to_history import SessionHistory\n"
        "def finish(self, outcomes):\n    raise KeyError('rows')\n"
        "SessionHistory.finish = finish\n",
    )
    result, outcomes = suite.outcomes("-p", "faults", "--dlperf-html=p.html", "-k1n1c")
    assert result.ret == 3
    assert len(outcomes) == 1
    result.stdout.fnmatch_lines(["*page NOT written: *p.html: *KeyError: 'chart'*"])
    result.stdout.fnmatch_lines(["history NOT written: *KeyError: 'rows'*"])
    assert not Path(suite.path / "p.html").exists()
    assert json.loads((suite.path / "r.json").read_text(encoding="utf-8"))["format"] == 1
