"""Pairs decide what stored sessions leave open, with a fake launcher; real ones in tests/torch."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_dlperf.report
from tests.helpers.fake_repository import ONE, TWO, commit, git
from tests.helpers.fake_suite import TESTS, Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

ONLY = ("-k", "1n1c")
#: Pairs in lock-step take seconds, in which the fake takes turns.
QUICK = "--dlperf-pairs=alternating"
REPORTS = {"json": "r.json", "html": "r.html", "md": "r.md", "benchmark-json": "b.json",
           "metrics": "r.prom"}  # fmt: skip


@pytest.fixture
def stored(repository: Suite) -> Suite:
    """One session is stored, of the commit that is checked out."""
    result = repository.run(*ONLY, "--update-baselines")
    assert result.ret == 0, result.stdout.str()
    return repository


def launches(suite: Suite) -> int:
    return len((suite.path / "launches").read_text(encoding="utf-8").splitlines())


def judged(outcomes: dict[str, Any], case_id: str = ONE) -> tuple[str, str | None]:
    """Return the verdict of a case, and that of its pairs; None without pairs."""
    outcome = outcomes[case_id]
    pairs = outcome["confirmation"] and outcome["confirmation"]["pairs"]
    return outcome["judgement"]["verdict"], pairs and pairs["verdict"]


def test_code_that_is_slower_is_red_by_pairs(stored: Suite):
    before = git(stored, "rev-parse", "HEAD")
    commit(stored, 0.0107)
    result, outcomes = stored.outcomes(*ONLY)
    outcome = outcomes[ONE]
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.065, abs=0.01)
    confirmation = outcome["confirmation"]
    assert confirmation["commit"] == confirmation["against"]["commit"] == before
    assert confirmation["against"]["name"] == before[:7]
    assert confirmation["pairs"]["verdict"] == "regressed"
    assert "than stored; side by side with" in outcome["judgement"]["reason"]
    assert outcome["against"] is None


def test_the_code_of_the_stored_session_is_never_red(stored: Suite):
    """The machine is slower: every launch is, whatever its code."""
    stored.env(FAKE_MACHINE=2)
    log = stored.path / "launches"
    stored.env(FAKE_LOG=log)
    result, outcomes = stored.outcomes(*ONLY, "--dlperf-strict")
    assert result.ret == 0, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "passed"
    assert outcome["confirmation"]["same_code"] is True
    assert "the machine or its settings did it" in outcome["judgement"]["reason"]
    assert outcome["confirmation"]["pairs"] is None


@pytest.mark.nightly  # the gate has its main way
def test_packages_that_were_not_recorded_are_no_equal_ones(
    repository: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("FAKE_SETTINGS")
    assert repository.run(*ONLY, "--update-baselines").ret == 0
    repository.env(FAKE_MACHINE=2)
    result, outcomes = repository.outcomes(*ONLY, "--dlperf-strict")
    assert (result.ret, *judged(outcomes)) == (1, "incomparable", None)
    assert "its packages then or now are not recorded" in outcomes[ONE]["judgement"]["reason"]


@pytest.mark.nightly  # the gate has its main way
def test_settings_that_git_does_not_know_may_be_read(stored: Suite):
    """What ranks read counts as what they import does; other files, such as results, do not."""
    (stored.path / "net.yaml").write_text("layers: 3", encoding="utf-8")
    _, outcomes = stored.outcomes(*ONLY, QUICK)
    assert outcomes[ONE]["confirmation"]["same_code"] is True
    stored.env(FAKE_READ="net.yaml")
    _, outcomes = stored.outcomes(*ONLY, QUICK)
    assert outcomes[ONE]["confirmation"]["same_code"] is False
    assert outcomes[ONE]["confirmation"]["pairs"]["verdict"] == "passed"


@pytest.mark.nightly  # the gate has its main way
def test_a_module_that_git_ignores_is_of_no_commit(stored: Suite):
    """Its worktree has none, so that no pair can be run."""
    with (stored.path / ".git/info/exclude").open("a", encoding="utf-8") as ignored:
        ignored.write("local.py\n")
    (stored.path / "local.py").write_text("x = 1\n", encoding="utf-8")
    stored.env(FAKE_IMPORTS="w.py,local.py?", FAKE_MACHINE=2)
    _, outcomes = stored.outcomes(*ONLY, QUICK)
    assert outcomes[ONE]["confirmation"]["same_code"] is False


@pytest.mark.nightly  # the gate has its main way
def test_a_program_of_no_commit_leaves_no_pair_possible(
    repository: Suite, tmp_path_factory: pytest.TempPathFactory
):
    """Only its log is read, so that nothing else says which code it is."""
    job = tmp_path_factory.mktemp("elsewhere") / "job.py"
    program = "for step in range(60):\n    print(f'step {{step}} takes {:.6f} s')\n"
    job.write_text(program.format(0.01), encoding="utf-8")
    repository.write(
        f"""
        import pytest
        from pytest_dlperf import pattern

        LOG = pattern(r"step (?P<step>\\d+) takes (?P<seconds>\\S+) s")

        @pytest.mark.dlperf(command=["python", {str(job)!r}], log_format=LOG, framework=None,
                            suite="net", layout="1n1c", batch_size_per_device=4, unit="samples",
                            iterations=60, warmup=10)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    git(repository, "commit", "-qam", "a program")
    assert repository.run("--update-baselines", "--dlperf-reason=first").ret == 0
    job.write_text(program.format(0.02), encoding="utf-8")
    result, outcomes = repository.outcomes()
    [outcome] = outcomes.values()
    assert (result.ret, outcome["judgement"]["verdict"]) == (1, "regressed")
    assert f"its command runs {job}" in outcome["confirmation"]["impossible"]


@pytest.mark.nightly  # the gate has its main way
def test_what_a_program_may_have_read_before_its_first_mark_is_measured(repository: Suite):
    """Of the user's own program only the files after its first mark are known."""
    (repository.path / "cfg.py").write_text("slow_s = 0.01\n", encoding="utf-8")
    (repository.path / "train.py").write_text(
        textwrap.dedent(
            """
            import time
            exec(open("cfg.py").read())
            from pytest_dlperf.mark import step
            for number in range(60):
                with step(work=4) as marked:
                    time.sleep(slow_s)
                    marked.loss(1 / (number + 1))
            """
        ),
        encoding="utf-8",
    )
    repository.write(
        """
        import pytest
        @pytest.mark.dlperf(command=["python", "train.py"], framework=None, suite="net",
                            layout="1n1c", batch_size_per_device=4, unit="samples",
                            iterations=60, warmup=10)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    git(repository, "add", "cfg.py", "train.py")
    git(repository, "commit", "-qam", "a program")
    assert repository.run("--update-baselines", "--dlperf-reason=first").ret == 0
    (repository.path / "cfg.py").write_text("slow_s = 0.02\n", encoding="utf-8")
    result, outcomes = repository.outcomes()
    [outcome] = outcomes.values()
    assert (result.ret, outcome["judgement"]["verdict"]) == (1, "regressed")
    assert outcome["confirmation"]["same_code"] is False


def test_code_that_no_commit_has_leaves_no_pair_possible(stored: Suite):
    stored.env(FAKE_IMPORTS="w.py", FAKE_OUTSIDE="/srv/models/net.py", FAKE_MACHINE=2)
    result, outcomes = stored.outcomes(*ONLY)
    outcome = outcomes[ONE]
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "regressed"
    assert "ranks import /srv/models/net.py" in outcome["confirmation"]["impossible"]
    assert outcome["confirmation"]["pairs"] is None


def test_every_report_has_the_pairs_of_the_one_case_that_needed_them(repository: Suite):
    assert repository.run("--update-baselines").ret == 0
    before = git(repository, "rev-parse", "HEAD")
    result, outcomes = repository.outcomes(
        f"--dlperf-inject={ONE}:12%", QUICK, "--junitxml=j.xml",
        *(f"--dlperf-{name}={file}" for name, file in REPORTS.items()),
    )  # fmt: skip
    assert result.ret == 1, result.stdout.str()
    assert judged(outcomes) == ("regressed", "regressed")
    assert judged(outcomes, TWO) == ("passed", None)
    assert outcomes[TWO]["confirmation"]["same_code"] is True
    confirmation = outcomes[ONE]["confirmation"]
    count = len(confirmation["measurement"]["runs"])
    assert len(confirmation["against"]["order"]) == count
    result.stdout.fnmatch_lines(
        [
            "dlperf: 2 cases, * and up to 10 pairs where stored sessions do not decide, *",
            f"[[]1/2] {ONE}: stored sessions leave it open; pairs with {before[:7]} decide",
            f"[[]1/2] {ONE} run 1/6 (*): *",
            f"1 of 2 cases needed pairs: {count} pairs, * s",
            "2 cases: 1 passed, 1 regressed",
        ]
    )
    values = json.loads((repository.path / "r.json").read_text(encoding="utf-8"))
    schema = Path(pytest_dlperf.report.__file__).with_name("outcomes.schema.json")
    jsonschema.validate(values, json.loads(schema.read_text(encoding="utf-8")))
    [of_one, _] = ElementTree.parse(repository.path / "j.xml").iter("testcase")
    properties = {p.get("name"): p.get("value") for p in of_one.iter("property")}
    assert properties["dlperf_confirmed_against"] == before
    assert properties["dlperf_pairs"] == str(count)
    of_stored = confirmation["stored"]["change"]
    assert float(properties["dlperf_change_to_stored"] or 0) == pytest.approx(of_stored)
    written = {n: (repository.path / f).read_text(encoding="utf-8") for n, f in REPORTS.items()}
    assert f"1 of 2 cases needed pairs: {count} pairs" in written["md"]
    assert f'dlperf_pairs{{case="{ONE}",' in written["metrics"]
    assert f"{count} pairs with {before[:7]}: regressed" in written["html"]
    extra = {
        b["group"]: b["extra_info"] for b in json.loads(written["benchmark-json"])["benchmarks"]
    }
    assert [extra[name]["pairs"] for name in (ONE, TWO)] == [count, 0]


def test_what_was_faster_by_pairs_is_stored_and_what_was_slower_is_not(stored: Suite):
    commit(stored, 0.008)
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--update-baselines")
    assert result.ret == 0, result.stdout.str()
    assert judged(outcomes) == ("improved", "improved")
    assert outcomes[ONE]["update"] == "replaced"
    baseline = stored.baselines()
    before = commit(stored, 0.009)
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--update-baselines")
    assert (result.ret, *judged(outcomes)) == (1, "regressed", "regressed")
    result.stdout.fnmatch_lines(["*the baseline was not written: *the verdict is regressed*"])
    assert stored.baselines() == baseline

    # What pairs said is not asked again by those who take the results
    stored.env(FAKE_LOG=stored.path / "launches")
    red = outcomes[ONE]["judgement"]["reason"].partition("\n")[0]
    shutil.copy(stored.path / "r.json", stored.path / "red.json")
    for words, code in (((), 1), (("--dlperf-mode=observe",), 0)):
        result, outcomes = stored.outcomes(*ONLY, "--dlperf-resume=red.json", *words)
        assert (result.ret, *judged(outcomes)) == (code, "regressed", "regressed")
        assert outcomes[ONE]["judgement"]["reason"].partition("\n")[0] == red
        assert outcomes[ONE]["taken_from"]
    assert not (stored.path / "launches").exists()
    accept = (sys.executable, "-m", "pytest_dlperf.cli", "baselines", "accept", "red.json")
    refused = stored.pytester.run(*accept)
    refused.stderr.fnmatch_lines(["refused *the verdict is regressed*"])
    assert stored.pytester.run(*accept, "--reason=meant").ret == 0
    # Its code is another one now: only the stored rule can speak
    assert stored.baselines()[ONE]["sessions"][-1]["commit"] == before
    _, outcomes = stored.outcomes(*ONLY, "--dlperf-resume=red.json")
    assert outcomes[ONE]["judgement"]["verdict"] != "regressed"


@pytest.mark.nightly  # the gate has its main way
def test_memory_that_grew_is_red_by_pairs(stored: Suite):
    """The rate is as it was: pairs are asked for what else is gated as well."""
    commit(stored, 0.01, memory_bytes=150_000_000)
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-tolerance=20%")
    assert (result.ret, *judged(outcomes)) == (1, "regressed", "regressed")
    pairs = outcomes[ONE]["confirmation"]["pairs"]
    assert pairs["metrics"]["peak_memory"]["verdict"] == "regressed"
    assert outcomes[ONE]["judgement"]["change"] == pytest.approx(0, abs=0.01)


@pytest.mark.nightly  # the gate has its main way
def test_pairs_that_decide_nothing_leave_the_case_open(stored: Suite):
    commit(stored, 0.0104)
    stored.env(FAKE_NOISY="*/pairs/before/*", FAKE_SEED=1)
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-runs=3", "--dlperf-max-runs=4")
    assert judged(outcomes) == ("inconclusive", "inconclusive")
    assert result.ret == 0
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-strict", "--dlperf-runs=3")
    assert result.ret == 1


#: A clock by which the time is up once a second pair was launched.
CLOCK = """
from pathlib import Path
from pytest_dlperf.flow.budget import Budget

Budget.allows = lambda self, run_s: not any(Path().glob(".dlperf/*/pairs/net*/run{}"))
"""


@pytest.mark.nightly  # the gate has its main way
def test_a_case_whose_pairs_the_budget_cuts_short_says_so(stored: Suite):
    commit(stored, 0.012)
    stored.pytester.makeconftest(CLOCK.format(2))
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-budget=1h")
    assert judged(outcomes) == ("inconclusive", "inconclusive")
    assert len(outcomes[ONE]["confirmation"]["measurement"]["runs"]) == 2
    result.stdout.fnmatch_lines(["*the budget of 60 min was spent before*"])


@pytest.mark.nightly  # the gate has its main way
def test_pairs_that_a_budget_cut_short_go_on_where_the_session_is_resumed(stored: Suite):
    commit(stored, 0.012)
    stored.pytester.makeconftest(CLOCK.format(2))
    _, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-budget=1h")
    assert outcomes[ONE]["confirmation"]["is_cut_short"] is True
    (stored.path / "ended.json").write_bytes((stored.path / stored.results).read_bytes())
    (stored.path / "conftest.py").unlink()
    _, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-resume=ended.json")
    assert judged(outcomes) == ("regressed", "regressed")


#: Time is over once the last session has five runs: those of the first stage.
NO_PAIR = """
from pathlib import Path
from pytest_dlperf.flow.budget import Budget

Budget.allows = lambda self, run_s: not any(max(Path(".dlperf").glob("2*")).glob("net*/run5"))
"""


@pytest.mark.nightly  # the gate has its main way
def test_a_budget_without_time_for_a_pair_leaves_the_word_to_stored_sessions(stored: Suite):
    commit(stored, 0.012)
    stored.pytester.makeconftest(NO_PAIR)
    _, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-budget=1h")
    assert outcomes[ONE]["confirmation"]["pairs"] is None
    assert outcomes[ONE]["confirmation"]["is_cut_short"] is True
    assert "has no time for a pair" in outcomes[ONE]["judgement"]["reason"]


@pytest.mark.nightly  # the gate has its main way
def test_processes_and_reruns_ask_once(repository: Suite):
    pytest.importorskip("xdist")
    pytest.importorskip("pytest_rerunfailures")
    assert repository.run("--update-baselines").ret == 0
    commit(repository, 0.012)
    repository.env(FAKE_LOG=repository.path / "launches")
    result, outcomes = repository.outcomes(
        "-n2", "--reruns=1", QUICK, "--dlperf-max-runs=5", "--dlperf-explain=never"
    )
    assert result.ret == 1
    assert judged(outcomes) == judged(outcomes, TWO) == ("regressed", "regressed")
    result.stdout.fnmatch_lines(["2 of 2 cases needed pairs: *"])
    counted = sum(
        len(one["measurement"]["runs"]) + 2 * len(one["confirmation"]["measurement"]["runs"])
        for one in outcomes.values()
    )
    assert launches(repository) == counted


def test_a_known_slowdown_that_pairs_confirm_is_let_pass(stored: Suite):
    known = 'known={"issue": "#1", "until": "2999-01-01", "change": "-15%"}'
    stored.write(TESTS.replace("batch_size_per_device=4", f"batch_size_per_device=4, {known}"))
    commit(stored, 0.011)
    result, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-strict")
    assert (result.ret, *judged(outcomes)) == (0, "regressed", "regressed")
    assert outcomes[ONE]["judgement"]["known"] == "known"


@pytest.mark.nightly  # the gate has pairs of unchanged code in test_selftest.py
def test_the_slower_step_of_a_self_test_goes_through_pairs(repository: Suite):
    result = repository.run(
        *ONLY, "--dlperf-selftest=20%", QUICK, "--dlperf-tolerance=15%", "--dlperf-runs=3"
    )
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["*the gate sees steps that take 20 % longer here, by pairs"])
    [folder] = repository.path.glob(".dlperf/selftest/*/")
    found = {}
    for step in ("unchanged", "slower"):
        values = json.loads((folder / f"{step}.json").read_text(encoding="utf-8"))
        [outcome] = values["outcomes"]
        found[step] = judged({ONE: outcome})
    assert found == {"unchanged": ("passed", None), "slower": ("regressed", "regressed")}


@pytest.mark.nightly  # the gate has its main way
def test_pairs_of_an_ended_session_are_taken_for_their_own_tolerance_alone(stored: Suite):
    commit(stored, 0.0107)
    stored.env(FAKE_LOG=stored.path / "launches")
    ended = (*ONLY, QUICK, "--dlperf-tolerance=15%")
    _, outcomes = stored.outcomes(*ended)
    assert judged(outcomes) == ("passed", "passed")
    (stored.path / "ended.json").write_bytes((stored.path / stored.results).read_bytes())
    before = launches(stored)
    resume = "--dlperf-resume=ended.json"
    _, outcomes = stored.outcomes(*ended, resume)
    assert (judged(outcomes), launches(stored)) == (("passed", "passed"), before)
    result, outcomes = stored.outcomes(*ONLY, QUICK, resume)
    assert judged(outcomes) == ("regressed", "regressed")
    result.stdout.fnmatch_lines(["*tolerance of its pairs: 5.0%, was 15.0%*"])


@pytest.mark.nightly  # the gate has its main way
def test_a_job_of_a_scheduler_measures_its_pairs(stored: Suite):
    commit(stored, 0.0107)
    _, outcomes = stored.outcomes(*ONLY, QUICK, "--dlperf-scheduler=in-job")
    assert judged(outcomes) == ("regressed", "regressed")


def test_a_machine_that_stays_disturbed_is_left_to_pairs_at_once(stored: Suite):
    """Both arms of a pair meet the same neighbours, so that pairs find what stored runs cannot."""
    commit(stored, 0.0107)
    stored.env(FAKE_OTHERS=0.5)
    _, outcomes = stored.outcomes(*ONLY)
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["confirmation"]["stored"]["verdict"] == "incomparable"
    # Against stored sessions alone six are repeated
    assert len(outcome["measurement"]["runs"]) == 2
    assert all(run["disturbed"] for run in outcome["measurement"]["runs"])
