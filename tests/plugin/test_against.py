"""Interleaved A/B: pairs of runs of two arms, with a fake launcher; real ones in tests/torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

import pytest_dlperf.report
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


#: A tolerance that three pairs certify.
WIDE = "--dlperf-tolerance=15%"
ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def git(suite: Suite, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=suite.path, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(suite: Suite, step_s: float) -> str:
    """Commit a workload whose steps take so long, and return the commit."""
    (suite.path / "w.py").write_text(f"step_s = {step_s}\n", encoding="utf-8")
    git(suite, "add", "w.py", "test_net.py")
    git(suite, "commit", "-q", "-m", f"{step_s} s")
    return git(suite, "rev-parse", "HEAD")


@pytest.fixture
def repository(suite: Suite) -> Suite:
    git(suite, "init", "-q", "-b", "main")
    (suite.path / ".git/info/exclude").write_text("site\nruntime\nr.json\n")
    (suite.path / "other.py").write_text("x = 1\n", encoding="utf-8")
    git(suite, "add", "other.py")
    commit(suite, 0.01)
    suite.env(FAKE_IMPORTS="w.py", FAKE_STEP_FILE="w.py")
    return suite


def test_both_arms_sample_scaling_in_the_same_pairs(repository: Suite):
    repository.env(FAKE_SCALING=0.2)
    _, outcomes = repository.outcomes("-k", "1n2c", "--dlperf-against=HEAD", WIDE)
    arms = [outcomes[TWO]["measurement"], outcomes[TWO]["against"]["measurement"]]
    told = [[run["scaling"] is not None for run in one["runs"]] for one in arms]
    assert told == [[True, False, False], [True, False, False]]


def test_a_slower_head_is_found_and_its_arms_are_recorded(repository: Suite):
    first = git(repository, "rev-parse", "HEAD")
    commit(repository, 0.012)
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "regressed"
    assert judgement["change"] == pytest.approx(0.01 / 0.012 - 1, abs=0.02)
    assert f"than HEAD~1 (commit {first[:12]})" in judgement["reason"]
    assert judgement["metrics"]["cpu_seconds"]["change"] == pytest.approx(0.2, abs=0.03)
    assert not judgement["provisional"]
    against = outcome["against"]
    assert (against["name"], against["kind"], against["commit"]) == ("HEAD~1", "ref", first)
    runs, others = outcome["measurement"]["runs"], against["measurement"]["runs"]
    assert len(runs) == len(others) == 5
    assert against["measurement"]["throughput"] > outcome["measurement"]["throughput"]
    assert against["order"] == ["both"] * 5
    assert "in 5 pairs of runs in lock-step" in judgement["reason"]
    turns = [run["turns"] for run in (*runs, *others)]
    # The window of a second was made five seconds long, in turns of 0.15 s
    protocol = outcome["case"]["protocol"]
    assert protocol["lengthened_from"] == 150
    assert outcome["measurement"]["conditions"]["window"] == [50, protocol["iterations"]]
    # By the faster arm of the trial, which sleeps for 10 ms and a little more
    assert 350 < protocol["iterations"] < 570
    assert turns[:5] == turns[5:], "in turn with each other"
    for one in turns:
        length = one[1] - one[0]
        assert 8 <= length <= 13
        assert one == list(range(50, protocol["iterations"], length))
    values = json.loads((repository.path / "r.json").read_text(encoding="utf-8"))
    schema = Path(pytest_dlperf.report.__file__).with_name("outcomes.schema.json")
    jsonschema.validate(values, json.loads(schema.read_text(encoding="utf-8")))


def test_a_window_that_was_given_stays_as_long(repository: Suite):
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", WIDE, "--dlperf-iterations=140"
    )
    runs = outcomes[ONE]["measurement"]["runs"]
    # Eight turns, as 0.15 s are longer than an eighth of the window
    assert [run["turns"] for run in runs] == [list(range(50, 140, 12))] * len(runs)


def test_a_window_is_not_made_longer_where_the_budget_has_no_time_for_it(repository: Suite):
    # For a longer pair, but not for the three of a first look
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", WIDE, "--dlperf-budget=25s"
    )
    outcome = outcomes[ONE]
    assert outcome["measurement"]["runs"]
    assert outcome["measurement"]["conditions"]["window"] == [50, 150]
    assert outcome["case"]["protocol"]["lengthened_from"] is None


def test_launches_alternate_where_the_user_asks_for_it(repository: Suite):
    commit(repository, 0.012)
    result, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD~1", "--dlperf-pairs=alternating"
    )
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    order = outcome["against"]["order"]
    assert len(order) == 5
    assert {order[0], order[1]} == {"now", "before"}
    assert "lock-step" not in outcome["judgement"]["reason"]
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert note["message"] == "launches alternate: as --dlperf-pairs asks for it"
    assert all(run["turns"] == [] for run in outcome["measurement"]["runs"])


def test_launches_alternate_where_both_arms_do_not_fit(repository: Suite):
    commit(repository, 0.012)
    repository.env(FAKE_ALONE=repository.path / "gpu")
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"now", "before"}
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert "both arms at once failed" in note["message"]
    assert "CUDA out of memory" in note["message"]


def test_arms_alternate_where_a_rank_works_while_it_waits(repository: Suite):
    """In a later pair as well, and the pairs before it do not count."""
    commit(repository, 0.012)
    repository.env(FAKE_READS_AHEAD="*/run3")
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"now", "before"}
    assert all(run["turns"] == [] for run in outcome["measurement"]["runs"])
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert "work while it waits" in note["message"]
    asked = ("-k", "1n1c", "--dlperf-against=HEAD~1", "--dlperf-pairs=lock-step")
    _, outcomes = repository.outcomes(*asked)
    assert outcomes[ONE]["judgement"]["verdict"] == "error"


def test_a_training_that_fails_in_lock_step_is_an_error_and_not_launched_again(repository: Suite):
    launches = repository.path / "launches"
    repository.env(FAKE_FAIL="*/run1", FAKE_ERROR="ValueError: the loss is nan", FAKE_LOG=launches)
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD")
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert "the loss is nan" in outcomes[ONE]["judgement"]["reason"]
    assert len(launches.read_text(encoding="utf-8").splitlines()) == 2


def test_arms_that_do_not_fit_are_an_error_where_lock_step_was_asked_for(repository: Suite):
    repository.env(FAKE_ALONE=repository.path / "gpu")
    result, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", "--dlperf-pairs=lock-step"
    )
    assert result.ret == 1
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert "CUDA out of memory" in outcomes[ONE]["judgement"]["reason"]


def test_pairs_without_an_arm_to_compare_with_are_refused(repository: Suite):
    result, _ = repository.measured("--dlperf-pairs=lock-step")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--dlperf-pairs=lock-step is about the pairs of*"])


def test_a_commit_that_changes_nothing_slow_passes_and_a_merge_base_is_found(repository: Suite):
    git(repository, "checkout", "-q", "-b", "topic")
    (repository.path / "w.py").write_text("# other words\nstep_s = 0.01\n", encoding="utf-8")
    git(repository, "commit", "-aqm", "words")
    result, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=merge-base:main", "--dlperf-strict", WIDE
    )
    assert result.ret == 0, result.stdout.str()
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert outcomes[ONE]["against"]["commit"] == git(repository, "rev-parse", "main")
    assert "in 3 pairs of runs" in outcomes[ONE]["judgement"]["reason"]


def test_head_on_a_clean_tree_is_a_null_and_says_so(repository: Suite):
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE)
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert "this was a null" in outcomes[ONE]["judgement"]["reason"]


@pytest.mark.parametrize("imports", ["w.py", "w.py,made.py?"])
def test_head_is_a_null_unless_the_case_imports_what_git_does_not_track(
    repository: Suite, imports: str
):
    (repository.path / "made.py").write_text("x = 1\n", encoding="utf-8")
    repository.env(FAKE_IMPORTS=imports)
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE)
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "passed"
    is_null = "; both arms are the same: this was a null" in judgement["reason"]
    assert is_null is ("made.py" not in imports)
    is_told = "; not a null: made.py, which git does not track and this case imports"
    assert (is_told in judgement["reason"]) is not is_null


def test_what_the_working_tree_changed_is_measured_against_head(repository: Suite):
    (repository.path / "w.py").write_text("step_s = 0.013\n", encoding="utf-8")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD")
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"


@pytest.mark.parametrize("extra", [(), ("-n2",)])
def test_a_diff_that_no_case_imports_is_skipped_and_fails_nothing(
    repository: Suite, extra: tuple[str, ...]
):
    (repository.path / "other.py").write_text("x = 2\n", encoding="utf-8")
    git(repository, "commit", "-aqm", "elsewhere")
    log = repository.path / "launches"
    repository.env(FAKE_LOG=log)
    result, outcomes = repository.outcomes("--dlperf-against=HEAD~1", "--dlperf-strict", *extra)
    assert result.ret == 0, result.stdout.str()
    for outcome in outcomes.values():
        assert outcome["judgement"]["verdict"] == "not-run"
        assert (
            "differ in 1 file, none of which this case imports" in outcome["judgement"]["reason"]
        )
        assert outcome["against"]["unaffected"] is True
        assert outcome["failed"] is False
    launched = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
    assert all(launched.count(case) <= 2 for case in (ONE, TWO))
    result.stdout.fnmatch_lines(["*2 cases: 2 not-run; 2 NOT JUDGED*"])


@pytest.fixture
def deletion(repository: Suite) -> Suite:
    """HEAD has no ``fast.py``, which the workload does without."""
    (repository.path / "fast.py").write_text("step_s = 0.005\n", encoding="utf-8")
    git(repository, "add", "fast.py")
    git(repository, "commit", "-qm", "fast")
    repository.env(FAKE_IMPORTS="w.py,fast.py?", FAKE_STEP_FILE="fast.py,w.py")
    return repository


@pytest.mark.parametrize("command", [("rm", "fast.py"), ("mv", "fast.py", "faster.py")])
def test_a_file_that_only_the_other_arm_imports_counts(deletion: Suite, command: tuple[str, ...]):
    git(deletion, *command)
    git(deletion, "commit", "-qm", "without")
    result, outcomes = deletion.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert outcomes[ONE]["judgement"]["change"] == pytest.approx(-0.5, abs=0.02)


def test_a_file_that_the_other_arm_could_not_import_is_an_error(deletion: Suite):
    """An editable install leads it to HEAD's tree, which has no such file."""
    git(deletion, "rm", "fast.py")
    git(deletion, "commit", "-qm", "without")
    deletion.env(FAKE_IMPORTS_FIRST=deletion.path, FAKE_IMPORTS="w.py")
    result, outcomes = deletion.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "error"
    assert "secretly an A/A: fast.py is in the tree of HEAD~1 (commit" in judgement["reason"]
    assert f"was imported from {deletion.path / 'w.py'}; put the" in judgement["reason"]


def test_relative_folders_of_the_path_are_those_of_each_arms_own_tree(
    repository: Suite, monkeypatch: pytest.MonkeyPatch
):
    """As docs/interleaved.md says: ``PYTHONPATH=src pytest ...``."""
    for step_s in (0.01, 0.02):
        for folder in ("src", "tests/x"):
            (repository.path / folder).mkdir(parents=True, exist_ok=True)
        (repository.path / "src/net.py").write_text(f"step_s = {step_s}\n")
        (repository.path / "tests/x/sizes.py").write_text(f"x = {step_s}\n")
        git(repository, "add", "src", "tests")
        git(repository, "commit", "-qm", "net")
    repository.env(FAKE_IMPORTS="net.py,sizes.py", FAKE_STEP_FILE="net.py")
    monkeypatch.setenv("PYTHONPATH", "src:tests/x", prepend=":")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "regressed", judgement["reason"]
    assert judgement["change"] == pytest.approx(-0.5, abs=0.02)


def test_arms_that_import_the_same_file_although_it_differs_are_an_error(repository: Suite):
    """As an editable install does: one tree's files come first in both arms."""
    commit(repository, 0.012)
    repository.env(FAKE_IMPORTS_FIRST=repository.path)
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "error"
    assert "secretly an A/A: w.py differs" in judgement["reason"]
    assert str(repository.path / "w.py") in judgement["reason"]
    assert "dlperf_arm_setup" in judgement["reason"]


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("no-such-branch", "has no commit 'no-such-branch'"),
        ("merge-base:no-such-branch", "has no commit 'no-such-branch'"),
        ("./no/python", "is not a program that can be started"),
        ("no-such-thing @ file:///no/such/folder", "does not exist"),
    ],
)
def test_arms_that_are_not_there(repository: Suite, against: str, message: str):
    log = repository.path / "launches"
    repository.env(FAKE_LOG=log)
    result, outcomes = repository.outcomes(f"--dlperf-against={against}")
    assert result.ret == 1
    for outcome in outcomes.values():
        assert outcome["judgement"]["verdict"] == "error"
        assert message in outcome["judgement"]["reason"]
        assert outcome["against"]["name"] == against
    assert not log.exists()


def test_an_arm_that_does_not_build_shows_the_last_lines(repository: Suite):
    commit(repository, 0.012)
    repository.pytester.makeini("[pytest]\ndlperf_arm_setup = echo no compiler here; exit 3")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    reason = outcomes[ONE]["judgement"]["reason"]
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert "'HEAD~1' was not built" in reason
    assert "exit code 3" in reason
    assert "    no compiler here" in reason
    assert git(repository, "worktree", "list").count("\n") == 0


def test_an_arm_is_set_up_and_linked(repository: Suite):
    commit(repository, 0.012)
    (repository.path / "data").mkdir()
    (repository.path / "data/d").write_text("d")
    repository.pytester.makeini(
        "[pytest]\ndlperf_arm_setup = cp data/d built && echo made\ndlperf_arm_link = data"
    )
    # The second session finds the tree, and collects none of its tests, whatever is recursed.
    for extra in ((), ("-o", "norecursedirs=x")):
        _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1", *extra)
        assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    [built] = repository.path.glob(".dlperf/arms/*/built")
    assert built.read_text() == "d"
    [log] = repository.path.glob(".dlperf/arms/*.setup/output.log")
    assert log.read_text() == "made\n"


def test_an_error_of_the_other_arm_names_it(repository: Suite):
    commit(repository, 0.012)
    repository.env(FAKE_FAIL="*/before/*")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    reason = outcomes[ONE]["judgement"]["reason"]
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert reason.startswith(f"{ONE}, against HEAD~1 (commit ")
    assert "rank 0: ValueError: boom" in reason


def test_a_disturbed_run_disturbs_its_pair(repository: Suite):
    repository.env(FAKE_OTHERS=0.5, FAKE_OTHERS_IN="*/before/*/run1")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE)
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "passed"
    [mine] = outcome["measurement"]["disturbed_runs"]
    [other] = outcome["against"]["measurement"]["disturbed_runs"]
    assert mine["disturbed"] == f"the other run of its pair: {other['disturbed']}"
    assert len(outcome["measurement"]["runs"]) == 3
    assert len(outcome["against"]["order"]) == 4
    repository.env(FAKE_OTHERS_IN="*/before/*")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD")
    assert outcomes[ONE]["judgement"]["verdict"] == "incomparable"
    assert "others used" in outcomes[ONE]["judgement"]["reason"]


def test_settings_are_an_arm(repository: Suite):
    repository.env(FAKE_STEP_FILE="other.py")
    (repository.path / "other.py").write_text("0.01")
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=FAKE_STEP_FILE=slow OMP_NUM_THREADS=2"
    )
    assert outcomes[ONE]["judgement"]["verdict"] == "error"  # no file of that name
    (repository.path / "slow").write_text("0.02")
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=FAKE_STEP_FILE=slow OMP_NUM_THREADS=2"
    )
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "improved"
    assert outcome["against"]["kind"] == "settings"
    assert outcome["against"]["measurement"]["conditions"]["threads_per_rank"] == 2


def test_injection_slows_this_side_alone(repository: Suite):
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", "--dlperf-inject=30%", "--dlperf-max-runs=6"
    )
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert outcomes[ONE]["judgement"]["change"] == pytest.approx(1 / 1.3 - 1, abs=0.02)
    assert outcomes[ONE]["against"]["measurement"]["inject"] == 0
