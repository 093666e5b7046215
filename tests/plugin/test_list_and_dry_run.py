"""What is printed without starting anything."""

from __future__ import annotations

import json

import pytest

from tests.helpers.fake_suite import Suite

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def test_collect_only_starts_nothing(suite: Suite):
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    result = suite.run("--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"test_net.py::test_net?{ONE}?", f"test_net.py::test_net?{TWO}?"])
    assert not log.exists()
    assert not (suite.path / ".dlperf").exists()


def test_list_shows_every_case_and_why_it_does_not_run(suite: Suite):
    suite.run("--update-baselines", "--cpus=1")
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", layout=["1n1c", "1n1g", "4n8g"], batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result = suite.run("--dlperf-list", "--dlperf-json=list.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"{ONE} *1 session* -- *yes",
            "net-torch-fp32-bs4-1n1g *none* -- *needs 1 GPUs*",
            "net-torch-fp32-bs4-4n8g *none* -- *4 nodes*",
        ]
    )
    listed = json.loads((suite.path / "list.json").read_text(encoding="utf-8"))
    assert listed["cases"][0]["id"] == ONE


def test_dry_run_prints_commands_and_starts_nothing(suite: Suite):
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    result = suite.run("--dlperf-dry-run", "--gpus=8,32")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "net-torch-fp32-bs4-1n8g",
            "*# not here: *8 GPUs*",
            "*OMP_NUM_THREADS=*",
            "*torchrun *--nproc-per-node=8*-m pytest_dlperf.worker*--workload=w:build*",
            "net-torch-fp32-bs4-4n8g",
            "*torchrun *--nnodes=4*--nproc-per-node=8*",
        ]
    )
    assert not log.exists()


def test_threads_of_the_environment_are_those_of_a_rank(suite: Suite):
    suite.env(OMP_NUM_THREADS="3,1")
    result = suite.run("--dlperf-dry-run", "--cpus=1")
    result.stdout.fnmatch_lines(["*OMP_NUM_THREADS=3 *", "*--threads-per-rank=3 *"])


@pytest.mark.slow
def test_looking_does_not_touch_a_results_file(suite: Suite):
    suite.outcomes("--dlperf-runs=1")
    before = (suite.path / "r.json").read_bytes()
    suite.run("--collect-only", "--dlperf-json=r.json")
    assert (suite.path / "r.json").read_bytes() == before


def test_a_dry_run_goes_on_after_a_case_without_command(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", framework=["paddle", "torch"], launcher="local",
                            layout="1n2c", batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result = suite.run("--dlperf-dry-run")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*# no command: *launcher 'local' starts one rank*"] * 2)


@pytest.mark.slow
def test_a_dry_run_on_hosts_prints_what_each_of_them_runs(suite: Suite):
    result = suite.run("--dlperf-dry-run", "--gpus=16", "--dlperf-hosts=n1:8,n2:8,n3:8")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "  # on n1", "*--node-rank=0 *--rdzv-endpoint=n1:29500*",
            "  # on n2", "*--node-rank=1 *--rdzv-endpoint=n1:29500*",
        ]
    )  # fmt: skip
    result.stdout.no_fnmatch_line("*not here*")
    result.stdout.no_fnmatch_line("*${*")


def test_a_launcher_for_all_cases(suite: Suite):
    result = suite.run("--dlperf-dry-run", "--gpus=8", "--dlperf-launcher=mpirun")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*mpirun *-m pytest_dlperf.worker*"])
    result.stdout.no_fnmatch_line("*torchrun*")
