"""Options of schedulers: what cannot be meant, and dry runs, which submit nothing."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

ONE = "net-torch-fp32-bs4-1n1c"


@pytest.mark.slow
def test_a_dry_run_prints_the_job_and_asks_nothing(suite: Suite):
    suite.env(SECRET_TOKEN="s3cret", NCCL_DEBUG="INFO")
    words = "--partition=gpu --account='a b'"
    result = suite.run(
        "--dlperf-scheduler=slurm", "--dlperf-dry-run", "--gpus=1,16", "--dlperf-runs=2",
        f"--dlperf-slurm={words}", "--update-baselines", "--dlperf-json=r.json",
    )  # fmt: skip
    text = result.stdout.str()
    assert result.ret == 0
    assert "--nodes=2 --ntasks-per-node=1 --gpus-per-node=8" in text
    assert "'--account=a b'" in text
    assert "NCCL_DEBUG" in text
    assert "s3cret" not in text
    [command, *_] = [line for line in result.outlines if "-m pytest" in line and "1n1g" in line]
    for word in ("--dlperf-scheduler=in-job", "--dlperf-runs=2", "--gpus=1,16"):
        assert word in command
    for word in ("update-baselines", "--dlperf-dry-run", "--dlperf-json=r.json"):
        assert word not in command
    assert "nothing was submitted" in text
    assert not (suite.path / ".dlperf").exists()


@pytest.mark.slow
def test_a_list_says_that_no_node_was_asked(suite: Suite):
    result = suite.run("--dlperf-scheduler=slurm", "--dlperf-list")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"{ONE} *unknown: no node was asked*as a job of slurm"])


@pytest.mark.slow
def test_what_runs_in_a_job_stores_nothing(suite: Suite):
    verdicts = suite.verdicts(
        "--dlperf-scheduler=in-job", "--update-baselines", "--cpus=1", "--dlperf-runs=1"
    )
    assert verdicts == {ONE: "no-baseline"}
    assert suite.baselines() == {}


def test_a_job_has_no_results_before_its_end(suite: Suite):
    # Whoever waits for the job takes them as soon as they are there
    suite.write_file(
        "conftest.py", "import os\n\ndef pytest_runtest_call(item):\n    os._exit(9)\n"
    )
    result = suite.run("--dlperf-scheduler=in-job", "--cpus=1", "--dlperf-json=r.json")
    assert result.ret == 9
    assert not (suite.path / "r.json").exists()


@pytest.mark.slow
def test_where_slurm_is_missing_every_case_is_an_error_that_says_so(suite: Suite):
    suite.env(PATH=suite.path)
    verdicts = suite.verdicts("--dlperf-scheduler=slurm", "--cpus=1")
    assert verdicts == {ONE: "error"}
    [outcome] = suite.outcomes("--dlperf-scheduler=slurm", "--cpus=1")[1].values()
    assert "sbatch cannot be started" in outcome["judgement"]["reason"]


@pytest.mark.slow
def test_no_job_is_submitted_for_a_case_that_cannot_run(suite: Suite):
    # Without Slurm, what is submitted is another error
    suite.env(PATH=suite.path)
    suite.write(
        """
        import pytest
        @pytest.mark.parametrize("depth", [2, 3])
        @pytest.mark.dlperf("w:build", layout="1n1c", batch_size_per_device=4, unit="tokens",
                            work=4)
        def test_net(dlperf, depth):
            dlperf.run()
        """
    )
    _, outcomes = suite.outcomes("--dlperf-scheduler=slurm")
    assert len(outcomes) == 2
    for case_id, outcome in outcomes.items():
        assert outcome["judgement"]["verdict"] == "error"
        assert outcome["judgement"]["reason"].startswith(f"{case_id}: work=4 is one number")
    result = suite.run("--dlperf-scheduler=slurm", "--dlperf-dry-run")
    assert result.stdout.str().count("# not here: work=4 is one number") == 2
    assert "sbatch" not in result.stdout.str()
