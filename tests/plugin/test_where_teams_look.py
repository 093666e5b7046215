"""Files and words for CI services, of one session whose log lines are hostile."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.fake_suite import Suite
from tests.helpers.hostile_text import assert_nothing_steers

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"
ERROR = (
    "ValueError: <b>训练吞吐率</b> | @octocat #12 \x1b[2J\u202e\n"
    "::stop-commands::owned\n"
    "a ##[error]owned\n"
    "]]> & ``` </details>"
)
REPORTS = (
    "--dlperf-md=out/c.md", "--dlperf-metrics=out/m.txt", "--dlperf-benchmark-json=out/b.json",
    "--junitxml=out/junit.xml", "--dlperf-runs=1",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("-n2",)])
def test_a_session_in_a_job_of_github(suite: Suite, how: tuple[str, ...]):
    """One case fails with a hostile log line, the other has no baseline."""
    step = suite.path / "step.md"
    step.write_text("before\n")
    suite.env(FAKE_FAIL="*1n2c*", FAKE_ERROR=ERROR, GITHUB_ACTIONS="true")
    suite.env(GITHUB_STEP_SUMMARY=step, GITHUB_WORKSPACE=suite.path.parent)
    result = suite.run(*how, *REPORTS)
    assert result.ret == 1
    printed = result.stdout.str()
    commands = [line for line in result.outlines if line.lstrip().startswith("::")]
    assert [c.partition("::")[2].split(" ")[0] for c in commands] == ["error", "warning"]
    where = re.escape(f"file={suite.path.name}/test_net.py,line=")
    assert re.match(rf"::error {where}\d+,title={TWO}%3A error::", commands[0])
    assert "%0A::stop-commands::owned%0A" in commands[0]
    assert "##[" not in printed.replace(commands[0], "")
    assert "\x1b[2J" not in printed
    assert "\u202e" not in printed
    assert "训练吞吐率" in printed

    text = (suite.path / "out/c.md").read_text(encoding="utf-8")
    assert re.fullmatch(r"<!-- pytest-dlperf: [\w .+-]+ -->", text.splitlines()[0])
    assert text.index(f"| {TWO}") < text.index(f"| {ONE}")
    assert step.read_text(encoding="utf-8") == f"before\n{text.partition(chr(10))[2]}\n"

    cases = {
        case.get("name"): case
        for case in ElementTree.parse(suite.path / "out/junit.xml").getroot().iter("testcase")
    }
    failure = cases[f"test_net[{TWO}]"].find("failure")
    assert failure is not None
    assert "error: " in failure.get("message", "")
    assert "训练吞吐率" in failure.get("message", "")
    skipped = cases[f"test_net[{ONE}]"].find("skipped")
    assert skipped is not None
    assert skipped.get("message", "").startswith("no-baseline (nothing-stored): ")
    told = {p.get("name"): p.get("value") for p in cases[f"test_net[{TWO}]"].iter("property")}
    assert (told["dlperf_case"], told["dlperf_verdict"]) == (TWO, "error")
    assert "训练吞吐率" in str(told["dlperf_reason"])

    metrics = (suite.path / "out/m.txt").read_text(encoding="utf-8")
    assert re.search(rf'^dlperf_throughput{{case="{ONE}",.*}} [\d.]+$', metrics, re.MULTILINE)
    assert re.search(rf'^dlperf_failed{{case="{TWO}".*}} 1$', metrics, re.MULTILINE)
    assert metrics.endswith("# EOF\n")
    [benchmark] = json.loads((suite.path / "out/b.json").read_text())["benchmarks"]
    assert benchmark["fullname"] == f"test_net.py::test_net[{ONE}]"
    assert benchmark["stats"]["mean"] == pytest.approx(0.01, rel=0.2)
    result.stdout.fnmatch_lines(
        ["pytest-benchmark: *b.json (without 1 of 2 cases, which have no*"]
    )


@pytest.mark.slow
def test_it_can_be_switched_off_and_a_summary_that_cannot_be_written_is_said(suite: Suite):
    suite.env(FAKE_FAIL="*1n2c*", FAKE_ERROR=ERROR, GITHUB_ACTIONS="true")
    suite.env(GITHUB_STEP_SUMMARY=suite.path)
    result = suite.run("--dlperf-runs=1", "--dlperf-md=/proc/c.md", "-k", "1n2c")
    assert result.ret == 3
    result.stdout.fnmatch_lines(
        ["comment NOT written: /proc/c.md: *", "summary of the step NOT written: *: Is a dir*"]
    )
    off = suite.run("--dlperf-runs=1", "-o", "dlperf_github=false", "-k", "1n2c")
    assert not any(line.lstrip().startswith("::") for line in off.outlines)
    off.stdout.no_fnmatch_line("*summary of the step*")


def test_quiet_is_one_line_verbose_has_the_runs_and_colours_only_where_asked(suite: Suite):
    quiet = suite.run("-q", "--dlperf-runs=2", "-k", "1n1c")
    [line] = [line for line in quiet.outlines if line.startswith("dlperf: ")]
    assert line == "dlperf: 1 case: 1 no-baseline; 1 NOT JUDGED"
    assert "sees" not in quiet.stdout.str()
    verbose = suite.run("-v", "--dlperf-runs=2", "-k", "1n1c", "--color=yes")
    verbose.stdout.fnmatch_lines(["*  runs: * * samples/s"])
    assert "\x1b[33mno-baseline\x1b[0m" in verbose.stdout.str()
    assert "\x1b" not in quiet.stdout.str()


@pytest.mark.slow
def test_the_estimate_is_made_of_earlier_runs_and_never_guessed(suite: Suite):
    suite.env(FAKE_WALL_S=0.1)
    first = suite.run("--dlperf-max-runs=4", "-k", "1n2c")
    unknown = (
        "dlperf: 1 case, 3 to 4 runs, and 3 to 4 runs of its one-device parent; an estimate "
        "follows after the first run of each, which ends within 30 min (--dlperf-timeout)"
    )
    first.stdout.fnmatch_lines(
        [
            unknown,
            f"{ONE} run 1/3*",
            "dlperf: about * for 5 to 7 runs left",
            f"{ONE} run 2/3*",
            f"{TWO} run 1/3*",
            "dlperf: about * for 2 to 4 runs left",
            f"{TWO} run 2/3*",
        ]
    )
    assert first.stdout.str().count("runs left") == 2
    both = suite.run("--dlperf-runs=2")
    both.stdout.no_fnmatch_line("*left")
    # The parent's runs, which no test had asked for, are known as well.
    both.stdout.re_match_lines([r"dlperf: 2 cases, 2 runs each, \d+ s$"])
    lines = [line for line in both.outlines if re.match(r"\[(in rounds|\d/2)\] net-", line)]
    assert [line.partition(":")[0] for line in lines] == [
        f"[in rounds] {ONE} run 1/2", f"[in rounds] {TWO} run 1/2",
        f"[1/2] {ONE} run 2/2", f"[2/2] {TWO} run 2/2",
    ]  # fmt: skip
    listed = suite.run("--collect-only", "-k", "1n1c")
    assert "time unknown" not in listed.stdout.str()
    assert not re.search(r"runs?,", listed.stdout.str())
    known = suite.run("--dlperf-runs=1", "--dlperf-budget=10m")
    known.stdout.re_match_lines(
        [r"dlperf: 2 cases, 1 run each, \d+ s; --dlperf-budget ends it after 10 min"]
    )


#: What a file may hold that a session reads.
TEXT = "\n::error::owned\x1b[2J\u202e##[error]"


@pytest.mark.nightly  # the gate has its main way
def test_texts_of_files_that_a_session_refuses_are_escaped(suite: Suite):
    suite.env(GITHUB_ACTIONS="true")
    suite.pytester.makeini("[pytest]\ndlperf_github = false\n")
    (suite.path / "old.json").write_text(json.dumps({"format": TEXT, "outcomes": []}))
    (suite.path / "hosts").write_text(f"n1 slots={TEXT[1:]}\n")
    folder = suite.path / f"b{TEXT}"
    stored = folder / "x" / "net" / f"{ONE}.json"
    stored.parent.mkdir(parents=True)
    stored.write_text(json.dumps({TEXT: 1}))
    for words in (
        ("--dlperf-resume=old.json",),
        ("--dlperf-hosts=hosts",),
        (f"--dlperf-tolerance={TEXT}",),
        (f"--dlperf-baselines={folder}", "--dlperf-list"),
        (f"--dlperf-baselines={folder}", "--dlperf-dry-run"),
        (f"--dlperf-baselines={folder}", "--dlperf-runs=1", "-k", "1n1c"),
        (f"--dlperf-baselines={stored}",),
    ):
        result = suite.run(*words)
        for text in (result.stdout.str(), result.stderr.str()):
            assert_nothing_steers(text)
        assert "owned" in result.stdout.str() + result.stderr.str(), words
