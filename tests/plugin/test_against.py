"""The arms of an interleaved A/B, with a fake launcher; real ones in tests/torch."""

from __future__ import annotations

import pytest

from tests.helpers.fake_repository import ONE, TWO, WIDE, commit, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


@pytest.mark.nightly  # the gate has its main way
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
    assert "in 3 pairs of runs" in outcomes[ONE]["judgement"]["details"][0]


@pytest.mark.nightly  # the gate has its main way
def test_head_on_a_clean_tree_is_a_null_and_says_so(repository: Suite):
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE)
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert "this was a null" in outcomes[ONE]["judgement"]["reason"]


@pytest.mark.parametrize(
    "imports", ["w.py", pytest.param("w.py,made.py?", marks=pytest.mark.nightly)]
)
def test_head_is_a_null_unless_the_case_imports_what_git_does_not_track(
    repository: Suite, imports: str
):
    (repository.path / "made.py").write_text("x = 1\n", encoding="utf-8")
    repository.env(FAKE_IMPORTS=imports)
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE)
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "passed"
    is_null = "\nboth arms are the same: this was a null" in judgement["reason"]
    assert is_null is ("made.py" not in imports)
    is_told = "\nnot a null: made.py, which git does not track and this case imports"
    assert (is_told in judgement["reason"]) is not is_null


def test_what_the_working_tree_changed_is_measured_against_head(repository: Suite):
    (repository.path / "w.py").write_text("step_s = 0.013\n", encoding="utf-8")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD")
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"


@pytest.mark.parametrize("extra", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)])
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


@pytest.mark.nightly  # the gate has files that both arms import
@pytest.mark.parametrize(
    "command",
    [("rm", "fast.py"), ("mv", "fast.py", "faster.py")],
)
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
    assert f"was imported from {deletion.path / 'w.py'}; name the" in judgement["reason"]


@pytest.mark.nightly  # the gate has its main way
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
        pytest.param(
            "merge-base:no-such-branch",
            "has no commit 'no-such-branch'",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "./no/python", "is not a program that can be started", marks=pytest.mark.nightly
        ),
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


@pytest.mark.nightly  # the gate has its main way
def test_an_arm_is_set_up_and_linked(repository: Suite):
    commit(repository, 0.012)
    (repository.path / "data").mkdir()
    (repository.path / "data/d").write_text("d")
    repository.pytester.makeini(
        "[pytest]\ndlperf_arm_setup = cp data/d built && echo made\ndlperf_arm_link = data"
    )
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    # The next session collects none of the tree's tests, whatever is recursed.
    listed = repository.run("--dlperf-list", "-k", "1n1c", "-o", "norecursedirs=x")
    assert listed.ret == 0
    assert listed.stdout.str().count(ONE) == 1
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
