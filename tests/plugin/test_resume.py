"""``--dlperf-resume``: a session goes on with what an interrupted one has left."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow

TESTS = """
import os, signal, pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=[1, 2, 4],
                    runs=1, max_runs=1)
def test_net(dlperf):
    if dlperf.case.batch_size_per_device == 4 and "ENDS" in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)
    dlperf.run()
"""
FIRST, SECOND, THIRD = (f"net-torch-fp32-bs{size}-1n1c" for size in (1, 2, 4))
RESUME = "--dlperf-resume=r.json"


@pytest.fixture
def cut(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Return a suite whose session was ended before its third case; the second has an error."""
    suite.write(TESTS)
    suite.env(ENDS=1, FAKE_FAIL="*bs2*", FAKE_LOG=suite.path / "launches")
    assert suite.run("--dlperf-json=r.json").ret == 143
    monkeypatch.delenv("ENDS")
    monkeypatch.delenv("FAKE_FAIL")
    (suite.path / "launches").unlink()
    return suite


def launched(suite: Suite) -> list[str]:
    path = suite.path / "launches"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.split()[0] for line in lines]


def read(suite: Suite, name: str = "r.json") -> dict[str, Any]:
    values = json.loads((suite.path / name).read_text(encoding="utf-8"))
    return {outcome["case"]["id"]: outcome for outcome in values["outcomes"]}


def change(suite: Suite, changes: Callable[[dict[str, Any]], None], case_id: str = FIRST) -> None:
    values = json.loads((suite.path / "r.json").read_text(encoding="utf-8"))
    for outcome in values["outcomes"]:
        if outcome["case"]["id"] == case_id:
            changes(outcome)
    (suite.path / "r.json").write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(
    "how", [pytest.param((), marks=pytest.mark.nightly), ("-n2",)], ids=["alone", "xdist"]
)
def test_only_what_is_missing_is_measured_and_the_exit_code_is_that_of_the_whole(
    cut: Suite, how: tuple[str, ...]
):
    before = read(cut)
    result = cut.run(RESUME, "--dlperf-json=n.json", "--junitxml=j.xml", "--dlperf-md=c.md", *how)
    # An error stays red
    assert result.ret == 1
    assert launched(cut) == [THIRD]
    after = read(cut, "n.json")
    assert set(after) == {FIRST, SECOND, THIRD}
    assert "resume" not in after[SECOND]["command"]
    taken = {case_id: bool(outcome["taken_from"]) for case_id, outcome in after.items()}
    assert taken == {FIRST: True, SECOND: True, THIRD: False}
    for name in ("measurement", "judgement", "time", "failed"):
        assert after[FIRST][name] == before[FIRST][name]
        assert after[SECOND][name] == before[SECOND][name]
    assert after[SECOND]["failed"]
    assert not after[THIRD]["interrupted"]
    result.stdout.fnmatch_lines(
        [f"{FIRST} * no-baseline [[]taken]", "2 of 3 cases were taken from *r.json, and not *"]
    )
    cases = {case.get("name"): case for case in ET.parse(cut.path / "j.xml").iter("testcase")}
    assert set(cases) == {f"test_net[{case_id}]" for case_id in (FIRST, SECOND, THIRD)}
    failed = [name for name, case in cases.items() if case.find("failure") is not None]
    assert failed == [f"test_net[{SECOND}]"]
    mark = ".//property[@name='dlperf_taken_from']"
    marked = [name for name, case in cases.items() if case.find(mark) is not None]
    assert sorted(map(str, marked)) == [f"test_net[{FIRST}]", f"test_net[{SECOND}]"]
    assert (cut.path / "c.md").read_text(encoding="utf-8").count("(taken)") == 2


@pytest.mark.nightly  # the gate has its main way
def test_a_second_interruption_loses_nothing_of_the_file_that_it_writes(
    cut: Suite, monkeypatch: pytest.MonkeyPatch
):
    cut.env(ENDS=1)
    # The last case comes first, and is ended before any other was taken
    cut.write(TESTS.replace("[1, 2, 4]", "[4, 2, 1]"))
    assert cut.run(RESUME, "--dlperf-json=r.json").ret == 143
    assert launched(cut) == []
    found = read(cut)
    assert [found[one]["interrupted"] for one in (FIRST, SECOND, THIRD)] == [False, False, True]
    monkeypatch.delenv("ENDS")
    assert cut.run(RESUME, "--dlperf-json=r.json").ret == 1
    assert launched(cut) == [THIRD]


def test_what_differs_is_said_and_measured_again(cut: Suite):
    change(cut, lambda outcome: outcome.update(commit="f" * 40))
    result = cut.run(RESUME, "--dlperf-json=n.json")
    assert launched(cut) == [FIRST, THIRD]
    said = "measured again, and not taken from *r.json: commit: none, was fffffff"
    result.stdout.fnmatch_lines([f"*{said}"])
    outcome = read(cut, "n.json")[FIRST]
    assert not outcome["taken_from"]
    assert fnmatch(outcome["judgement"]["reason"].splitlines()[-1], said)


@pytest.mark.parametrize(
    "which", [("-k", "bs1"), pytest.param(("-x",), marks=pytest.mark.nightly)]
)
def test_cases_that_are_not_selected_or_reached_stay_in_the_file(
    cut: Suite, which: tuple[str, ...]
):
    before = read(cut)
    cut.run(RESUME, "--dlperf-json=r.json", *which)
    after = read(cut)
    assert set(after) == set(before)
    assert after[SECOND]["judgement"] == before[SECOND]["judgement"]
    assert launched(cut) == []


def test_what_is_taken_is_judged_by_the_baseline_and_tolerance_of_now(cut: Suite):
    """It had no baseline; one of rates twice as high is stored before the session goes on."""
    cut.env(FAKE_STEP_S=0.005)
    cut.run("--update-baselines", "--dlperf-runs=3", "-k", "bs1")
    (cut.path / "launches").unlink()
    cut.env(FAKE_STEP_S=0.01)
    cut.run(RESUME, "--dlperf-json=n.json", "--dlperf-tolerance=10%")
    assert launched(cut) == [THIRD]
    taken = read(cut, "n.json")[FIRST]
    assert taken["taken_from"]
    assert taken["judgement"]["verdict"] == "regressed"
    assert taken["judgement"]["tolerance"] == 0.1
    assert taken["failed"]
    assert len(taken["baseline_sessions"]) == 1
    cut.run(RESUME, "--dlperf-json=n.json", "--dlperf-tolerance=60%", "-k", "bs1")
    assert read(cut, "n.json")[FIRST]["judgement"]["verdict"] != "regressed"


@pytest.mark.history
def test_history_has_each_measurement_once(cut: Suite):
    pytest.importorskip("sqlalchemy", reason="the extra history is not installed")
    result = cut.run(RESUME, "--dlperf-history=h.sqlite")
    result.stdout.fnmatch_lines(["history: 1 outcome added to *"])


def test_baselines_are_stored_of_the_whole(cut: Suite):
    cut.run(RESUME, "--update-baselines", "--dlperf-json=r.json")
    stored = cut.baselines()
    assert set(stored) == {FIRST, THIRD}
    assert read(cut)[FIRST]["update"] == "created"
    # Again: what is stored stays as it is
    cut.run(RESUME, "--update-baselines", "--dlperf-json=r.json")
    assert cut.baselines() == stored


def test_a_file_that_was_cut_is_a_plain_error(cut: Suite):
    text = (cut.path / "r.json").read_text(encoding="utf-8")
    (cut.path / "r.json").write_text(text[: len(text) // 2], encoding="utf-8")
    result = cut.run(RESUME)
    assert result.ret == 4
    assert "r.json: not JSON" in "\n".join(result.errlines)
    assert "Traceback" not in "\n".join(result.outlines + result.errlines)
    assert launched(cut) == []


def test_the_file_of_another_project_is_a_plain_error(cut: Suite):
    cut.write(TESTS.replace("test_net", "test_other"))
    result = cut.run(RESUME)
    assert result.ret == 4
    assert "none of its 3 cases is selected here" in "\n".join(result.errlines)
    assert launched(cut) == []
