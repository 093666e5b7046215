"""Which outcomes of an interrupted session are taken, and what keeps one from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import CUT_SHORT
from pytest_dlperf.core.outcome import Against, Outcome, outcome_from_json, outcome_to_json
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import MeasuredRun, Problem
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.verdict import NOT_STORED, with_finding
from pytest_dlperf.launch.arms.checkout import Checkout
from pytest_dlperf.report import json_
from pytest_dlperf.session.case_record import CaseRecords
from pytest_dlperf.session.folder import keep_inherited
from pytest_dlperf.session.resumed import Now, Resumed, differences
from pytest_dlperf.store.history.session_runs import SessionRuns
from tests.helpers.report_builders import case, environment, measured, run, unmeasured

CASE = case()
OUTCOME = replace(measured(CASE, 100.0), environment=environment(), commit="c" * 40)
NOW = Now(
    checkout=Checkout("c" * 40), environment=environment(), framework_version="2.13.0",
    inject=0.0, data=None, share_host=False, threads_per_rank=6, node="node1", tolerance=0.05,
)  # fmt: skip


def of_file(tmp_path: Path, *outcomes: Outcome) -> Resumed:
    json_.write(tmp_path / "r.json", outcomes)
    return Resumed(tmp_path / "r.json", CaseRecords())


def test_a_repository_that_git_refuses_differs():
    refused = Checkout("c" * 40, problem="fatal: detected dubious ownership")
    [why] = differences(CASE, OUTCOME, replace(NOW, checkout=refused))
    assert "fatal: detected dubious ownership" in why


def test_nothing_differs_also_after_json():
    assert list(differences(CASE, outcome_from_json(outcome_to_json(OUTCOME)), NOW)) == []


@pytest.mark.parametrize(
    ("outcome", "now", "says"),
    [
        ({"commit": "f" * 40}, {}, "commit: ccccccc, was fffffff"),
        ({"commit": ""}, {}, "commit: ccccccc, was none"),
        ({"dirty": True}, {}, "tracked files are or were modified"),
        ({}, {"checkout": Checkout("c" * 40, dirty=True)}, "tracked files are or were modified"),
        ({"case": replace(CASE, version=7)}, {}, f"version of the case: {CASE.version}, was 7"),
        ({"case": replace(CASE, protocol=Protocol(runs=9))}, {}, "protocol of the case: "),
        ({"environment": None}, {}, "its machine was not recorded"),
        (
            {"environment": replace(environment(), machine_class="9x-other")}, {},
            "was 9x-other",
        ),
        ({"environment": environment(driver="1")}, {}, "driver: 450.80.02, was 1"),
        ({}, {"framework_version": "2.14.0"}, "torch: 2.14.0, was 2.13.0"),
        (
            {"environment": environment(version="2.13.0+cpu")},
            {"framework_version": "2.13.0+cu1"},
            "torch: 2.13.0+cu1, was 2.13.0+cpu",
        ),
        ({}, {"inject": 0.1}, "--dlperf-inject: 0.1, was 0"),
        ({}, {"data": "/data"}, "data: real, was synthetic"),
        ({}, {"share_host": True}, "--dlperf-share-host: True, was False"),
    ],
)  # fmt: skip
def test_what_differs_is_named(outcome: dict[str, Any], now: dict[str, Any], says: str):
    [found] = differences(CASE, replace(OUTCOME, **outcome), replace(NOW, **now))
    assert says in found


def test_the_build_of_a_framework_is_known_to_a_rank_alone():
    outcome = replace(OUTCOME, environment=environment(version="2.13.0+cu130"))
    assert list(differences(CASE, outcome, NOW)) == []


def test_of_a_gpu_case_a_changed_power_limit_is_known_before_a_rank_names_its_model():
    gpu = replace(CASE, layout=replace(CASE.layout, device="gpu"))
    was = replace(environment(), hardware="1x-a100-at-300w")
    outcome = replace(OUTCOME, case=gpu, environment=was)
    same = replace(environment(), hardware="0x-gpu-at-300w")
    assert list(differences(gpu, outcome, replace(NOW, environment=same))) == []
    other = replace(environment(), hardware="0x-gpu")
    [found] = differences(gpu, outcome, replace(NOW, environment=other))
    assert found.startswith("hardware: ")


def short() -> Outcome:
    assert OUTCOME.measurement is not None
    problems = (Problem(code=CUT_SHORT, message="m"),)
    return replace(OUTCOME, measurement=replace(OUTCOME.measurement, problems=problems))


@pytest.mark.parametrize(
    ("outcome", "is_taken"),
    [
        (OUTCOME, True),
        (unmeasured(CASE, Verdict.ERROR, "boom"), True),
        (unmeasured(CASE, Verdict.ERROR, "its test was ended", interrupted=True), False),
        (unmeasured(CASE, Verdict.NOT_RUN, "ended", interrupted=True), False),
        (unmeasured(CASE, Verdict.NOT_RUN, "not installed"), False),
        (unmeasured(CASE, Verdict.INCONCLUSIVE, "no time left"), False),
        (short(), False),
    ],
)
def test_final_outcomes_are_taken(tmp_path: Path, outcome: Outcome, is_taken: bool):
    resumed = of_file(tmp_path, outcome)
    assert (resumed.outcome(CASE) is not None) is is_taken
    assert resumed.outcome(case(precision="fp32")) is None


class EndedSession:
    """A session that ended after two runs of a case: its folder, and what a later one takes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder / "before", folder
        self.runs = SessionRuns(self.folder)
        for rate in (10.0, 11.0):
            self.runs.append(CASE, MeasuredRun(run(rate), {}))
        keep_inherited(self.folder, "main", data=None)

    def taken(self, outcome: Outcome, now: Now) -> tuple[list[MeasuredRun], str]:
        """Return the runs that a session of ``now`` goes on from, and why there are none."""
        ended = replace(outcome, interrupted=True, folder=str(self.folder / CASE.id))
        runs = SessionRuns(self.path / "now")
        why = of_file(self.path, ended).go_on(CASE, runs, lambda: now)
        return runs.load(CASE), why


def test_a_case_goes_on_from_the_runs_of_a_session_that_ended(tmp_path: Path):
    ended = EndedSession(tmp_path)
    runs, why = ended.taken(OUTCOME, NOW)
    assert (why, [one.summary.throughput for one in runs]) == ("", [10.0, 11.0])
    assert [p.code for one in runs for p in one.summary.problems] == ["runs-taken"]
    # Where ranks name their own host, as in containers, their names are not compared
    assert ended.taken(OUTCOME, replace(NOW, node=None))[1] == ""


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({"checkout": Checkout("f" * 40)}, "commit: fffffff, was ccccccc"),
        ({"inject": 0.1}, "--dlperf-inject: 0.1, was 0"),
        ({"node": "node2"}, "node: node2, was node1"),
        ({"threads_per_rank": 3}, "threads per rank: 3, were 6"),
        (
            {"environment": replace(environment(), machine={"cores visible": "4"})},
            "cores visible: 4, was None",
        ),
        ({"environment": environment(prefix="docker run x")}, "prefix: docker run x, was None"),
    ],
)
def test_runs_of_other_circumstances_are_not_used(tmp_path: Path, now: dict[str, Any], says: str):
    runs, why = EndedSession(tmp_path).taken(OUTCOME, replace(NOW, **now))
    assert runs == []
    assert f"its runs in {tmp_path / 'r.json'} are not used: {says}" in why


def test_runs_under_other_variables_of_a_library_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ended = EndedSession(tmp_path)
    monkeypatch.setenv("CI_JOB_ID", "71")  # no library reads it
    assert ended.taken(OUTCOME, NOW)[1] == ""
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("OMP_PLACES", "cores")
    _, why = ended.taken(OUTCOME, NOW)
    assert why.endswith("are not used: NCCL_ALGO and OMP_PLACES changed")
    assert "Ring" not in "".join(path.read_text("utf-8") for path in ended.folder.glob("*.json"))


def test_runs_of_other_data_are_not_used(tmp_path: Path):
    assert OUTCOME.measurement is not None
    conditions = replace(OUTCOME.measurement.conditions, data="real")
    real = replace(OUTCOME, measurement=replace(OUTCOME.measurement, conditions=conditions))
    ended = EndedSession(tmp_path)
    keep_inherited(ended.folder, "main", data="/data/a")
    _, why = ended.taken(real, replace(NOW, data="/data/b"))
    assert why.endswith("are not used: --dlperf-data changed")
    assert ended.taken(real, replace(NOW, data="/data/a"))[1] == ""


def test_runs_without_a_commit_are_not_used(tmp_path: Path):
    """An edited training would be joined to the one before."""
    outcome = replace(OUTCOME, commit="")
    _, why = EndedSession(tmp_path).taken(outcome, replace(NOW, checkout=Checkout()))
    assert why.endswith(
        "are not used: without a git commit, nothing shows that the code is the same"
    )


def test_the_speedup_of_runs_that_are_taken_is_over_the_parents_of_that_session(tmp_path: Path):
    ended, parent = EndedSession(tmp_path), CASE.parent()
    assert parent is not None
    ended.runs.append(parent, MeasuredRun(run(6.0), {}))
    ended.taken(OUTCOME, NOW)
    now = SessionRuns(tmp_path / "now")
    assert [one.summary.throughput for one in now.load(parent)] == [6.0]
    # Once, also where the parent went on from its own outcome
    ended.taken(OUTCOME, NOW)
    assert len(now.load(parent)) == 1


def test_what_ranks_inherited_has_to_be_known(tmp_path: Path):
    ended = EndedSession(tmp_path)
    [kept] = ended.folder.glob("inherited-*.json")
    kept.write_text("{", encoding="utf-8")
    assert "they cannot be read" in ended.taken(OUTCOME, NOW)[1]
    kept.unlink()
    assert "does not have what its ranks inherited" in ended.taken(OUTCOME, NOW)[1]


def test_runs_that_another_version_wrote_are_not_used(tmp_path: Path):
    ended = EndedSession(tmp_path)
    [file] = ended.folder.glob("*/runs.jsonl")
    file.write_text('{"run": {"rate": 1.0}, "facts": {}}\n', encoding="utf-8")
    runs, why = ended.taken(OUTCOME, NOW)
    assert runs == []
    assert "they cannot be read" in why


def test_a_refused_baseline_is_said_once(tmp_path: Path):
    refused = with_finding(OUTCOME.judgement, NOT_STORED, text="refused")
    assert refused.reason.endswith("\nthe baseline was not written: refused")
    taken = of_file(tmp_path).taken(replace(OUTCOME, judgement=refused, failed=True), "t.py::t")
    assert "not written" not in taken.judgement.text
    assert (taken.failed, taken.node_id) == (False, "t.py::t")
    assert taken.taken_from == str(tmp_path / "r.json")


def test_what_was_not_reached_again_stays_in_the_file(tmp_path: Path):
    other = measured(case(precision="fp32"), 50.0)
    json_.write(tmp_path / "r.json", (OUTCOME, other))
    records = CaseRecords()
    Resumed(tmp_path / "r.json", records)
    records.report(OUTCOME)
    assert [o.case.id for o in records.only_before] == [other.case.id]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("", "not JSON (the file is empty)"),
        ('{"format": 1, "outco', "not JSON"),
        ('{"format": 99, "outcomes": []}', "format 99, this version reads 1"),
        ('{"benchmarks": []}', "not a results file"),
        ('{"format": 1, "outcomes": [{}]}', "not an outcome"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, says: str):
    if text is not None:
        (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"--dlperf-resume: .*r\.json: ") as raised:
        Resumed(tmp_path / "r.json", CaseRecords())
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda one: one["measurement"].update(runs=[]), "its measurement has no runs"),
        (lambda one: one.update(time="yesterday"), "'yesterday' is not a time"),
    ],
)
def test_a_file_that_was_edited_is_named(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], says: str
):
    of_file(tmp_path, OUTCOME)
    values = json.loads((tmp_path / "r.json").read_text("utf-8"))
    edit(values["outcomes"][0])
    (tmp_path / "r.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UsageError, match=r"--dlperf-resume(=|: ).*r\.json: ") as raised:
        Resumed(tmp_path / "r.json", CaseRecords())
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ((OUTCOME, OUTCOME), "twice"),
        (
            (replace(OUTCOME, against=Against(name="HEAD", kind="ref")),),  # type: ignore[arg-type]
            "was measured against HEAD, in pairs",
        ),
    ],
)
def test_a_file_of_no_stored_session_is_refused(
    tmp_path: Path, outcomes: tuple[Outcome, ...], says: str
):
    with pytest.raises(UsageError, match=says):
        of_file(tmp_path, *outcomes)


def test_the_file_of_other_cases_is_refused(tmp_path: Path):
    resumed = of_file(tmp_path, OUTCOME)
    resumed.check([CASE, case(precision="fp32")])
    resumed.check([])
    of_file(tmp_path).check([CASE])
    with pytest.raises(UsageError, match="none of its 1 cases is selected here"):
        resumed.check([case(precision="fp32")])
