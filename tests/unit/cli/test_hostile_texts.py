"""Every command over files whose texts would all steer a terminal, or GitHub's runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf import cli
from pytest_dlperf.cli.stdout import json_text
from pytest_dlperf.core.baseline import Baseline, Session, Source
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.packages import PACKAGES
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.report.printable import shown
from pytest_dlperf.store.baseline.file_format import to_bytes
from tests.helpers.filled import filled
from tests.helpers.hostile_text import HOSTILE, assert_nothing_steers

pytestmark = pytest.mark.newest

#: What lines of a file begin with, and what the file itself is called.
COMMAND = "::stop-commands::x\n::error title=a::owned\x1b]0;b\x07\u202e\x7f##[error]"
#: As far as a file can have it.
NAME = "\n::error::owned\x1b[2J\u202e"
TIME = "2026-11-22T04:00:00Z"


@pytest.fixture(autouse=True)
def job_of_github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(tmp_path)


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command, check all that it writes, and return its standard output."""
    try:
        code = cli.main([str(word) for word in words])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    written = capsys.readouterr()
    assert_nothing_steers(written.out)
    assert_nothing_steers(written.err)
    assert code in {0, 1, 2}, written.err
    assert written.out or written.err
    return written.out


def hostile_outcomes(text: str) -> list[Outcome]:
    """Return outcomes in which every text is hostile: a failed, a passed and an open one."""
    outcome = filled(
        Outcome,
        text,
        time=TIME,
        baseline_sessions=(filled(Session, text, time=TIME),),
        published=dict.fromkeys(("unit", "machine_class", "document", "table"), text)
        | {"throughput": 2.5},
    )
    environment = outcome.environment
    environment = replace(environment, software={PACKAGES: text, text: text})
    runs = tuple(filled(RunSummary, text, throughput=rate) for rate in (99.0, 100.0, 101.0))
    measurement = filled(Measurement, text, runs=runs)
    return [
        replace(
            outcome,
            case=replace(outcome.case, suite=f"net{number}"),
            environment=environment,
            measurement=measurement,
            judgement=filled(Judgement, text, verdict=verdict),
        )
        for number, verdict in enumerate((Verdict.ERROR, Verdict.PASSED, Verdict.INCONCLUSIVE))
    ]


@pytest.mark.parametrize("text", [HOSTILE, COMMAND], ids=["in a line", "at its begin"])
def test_results_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    outcomes = hostile_outcomes(text)
    results, other = tmp_path / f"{NAME}.json", tmp_path / "other.json"
    results.write_text(json.dumps(results_to_json(outcomes)))
    other.write_text(json.dumps(results_to_json(outcomes[:2])))
    # Else every command would refuse them, and write none of their texts
    assert len(json_.read(results)) == len(outcomes)
    for words in (
        ("judge", results, other),
        ("judge", other, results, "--strict"),
        ("report", results),
        ("report", results, "--format=md"),
        ("report", results, "--format=html"),
        ("report", results, "--format=comment"),
        ("report", results, "--compare", NAME),
        ("nodes", results),
        ("baselines", "accept", results, f"--baselines={tmp_path / 'new'}"),
        ("baselines", "accept", results, "-k", NAME),
    ):
        ran(capsys, *words)


@pytest.mark.parametrize("text", [HOSTILE, COMMAND], ids=["in a line", "at its begin"])
def test_json_has_the_texts_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    outcomes = hostile_outcomes(text)
    results = tmp_path / "results.json"
    results.write_text(json.dumps(results_to_json(outcomes)))
    made = json.loads(ran(capsys, "judge", results, results, "--json"))
    assert [one["measurement"]["unit"] for one in made["outcomes"]] == [text] * 3
    assert [one["commit"] for one in made["outcomes"]] == [text] * 3
    assert ran(capsys, "report", results, "--json")
    assert ran(capsys, "nodes", results, "--json")


def test_json_of_any_characters_is_exact_and_needs_no_escape() -> None:
    text = "".join(map(chr, range(0x3000))) + "\ud800##[a]###[b]\\##[###c[##d[::x\n::y"
    made = json_text({text: [text, {"::": "::"}]})
    assert json.loads(made) == {text: [text, {"::": "::"}]}
    assert shown(made) == made


def baseline_of(text: str, case_id: str, source: str = "measured") -> Baseline:
    """Return a baseline that can be read, in which every other text is ``text``."""
    session = filled(
        Session,
        text,
        time=TIME,
        runs=(100.0, 101.0),
        parent_runs=(50.0, 51.0),
        peak_memory_bytes=(1.0, 2.0),
        estimates={},
        metrics={},
        scaling=None,
    )
    conditions = filled(Conditions, text, window=(5, 10))
    return filled(
        Baseline,
        text,
        case_id=case_id,
        suite="net",
        machine_class="2x-cpu",
        sessions=(session,) * 3,
        anchor=session,
        history=(),
        tolerance=0.05,
        source=filled(Source, text, kind=source),
        conditions=conditions,
    )


def test_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case_id = hostile_outcomes(COMMAND)[0].case.id.replace("net0", "net")
    folder = tmp_path / "baselines" / "2x-cpu" / "net"
    folder.mkdir(parents=True)
    file = folder / f"{case_id}.json"
    for text in (HOSTILE, COMMAND):
        file.write_bytes(to_bytes(baseline_of(text, case_id)))
        (folder / f"{case_id}.published.json").write_bytes(
            to_bytes(baseline_of(text, case_id, "published"))
        )
        for words in (
            ("baselines", "list"),
            ("baselines", "list", "--json"),
            ("baselines", "show", case_id),
            ("baselines", "show", case_id, "--json"),
            ("baselines", "show", text.replace("\0", "")),
            ("baselines", "check"),
            ("baselines", "check", "--json"),
            ("nodes",),
            ("judge", file, file),
        ):
            ran(capsys, *words)
    for broken in (f'{{"{NAME}": 1}}', f'{{"case_id": {json.dumps(COMMAND)}}}', COMMAND):
        file.write_text(broken)
        for words in (("baselines", "list"), ("judge", file, file), ("nodes",)):
            ran(capsys, *words)


#: A line that is no record, one that is, and one that a format reads the unit of.
LOG = f"{COMMAND}\nstep 1 rate 5 {COMMAND}\nstep 2 rate 6 unit{NAME}\n"


def test_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / f"x{NAME}"
    folder.mkdir()
    log = folder / "a.log"
    log.write_text(LOG)
    report = tmp_path / "report.md"
    report.write_text(f"| {COMMAND.splitlines()[1]} | 8 |\n|---|---|\n| ##[error]\x1b | 5.5 |\n")
    reading = ("--pattern", r"step (?P<step>\d+) rate (?P<rate>\d+)", "--unit", NAME, "--skip=0")
    for words in (
        ("extract", log),
        ("extract", log, *reading),
        ("extract", log, *reading, "--json"),
        ("extract", log, "--format", NAME),
        ("extract", log, "--pattern", f"({NAME}"),
        ("extract", "--log_dir", folder, *reading),
        ("judge", log, log),
        ("judge", log, log, *reading),
        ("judge", log, log, *reading, "--json"),
        ("audit", report, log, *reading),
        ("audit", report, log, *reading, "--json"),
    ):
        ran(capsys, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("judge", NAME, NAME),
        ("judge", "a"),
        ("judge", "a", "b", f"--{NAME}"),
        ("judge", "a", "b", f"--tolerance={NAME}"),
        ("judge", "a", "b", f"--family={NAME}"),
        (NAME,),
        ("report", NAME),
        ("report", "a", f"--format={NAME}"),
        ("extract", NAME, f"--scope={NAME}"),
        ("nodes", f"--baselines={NAME}"),
        ("baselines", NAME),
        ("baselines", "list", f"--baselines={NAME}"),
        ("baselines", "show", NAME),
        ("baselines", "prune", NAME),
        ("compare", f"--a={NAME}", f"--b={NAME}", f"--suite={NAME}"),
        ("compare", f"--a={NAME}", "--b=HEAD", "--", NAME),
        ("explain", NAME, NAME),
        ("bisect-environment", f"--a={NAME}", f"--b={NAME}", NAME),
        ("doctor", f"--hosts={NAME}"),
        ("history", NAME),
    ],
    ids=lambda words: words[0].strip(),
)
def test_what_is_typed_and_wrong(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> None:
    ran(capsys, *words)


def test_an_error_of_dlperf_itself_is_escaped_and_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: object) -> int:
        raise RuntimeError(COMMAND)

    monkeypatch.setattr("pytest_dlperf.cli.doctor._doctor", fail)
    assert cli.main(["doctor"]) == 3
    written = capsys.readouterr()
    assert_nothing_steers(written.err)
    assert "RuntimeError" in written.err
    assert not written.out


def test_a_reader_that_goes_away_changes_no_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_dlperf.cli", "doctor", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        cut = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    whole = subprocess.run(command, capture_output=True, check=False)
    assert (cut.returncode, cut.stderr) == (whole.returncode, "")
