"""What Slurm says, read; and the queue where its commands are missing or mute."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.schedulers.slurm_queue import (
    SlurmQueue,
    State,
    read_sacct,
    read_scontrol,
    read_squeue,
)
from tests.unit.launch.test_slurm_job import request


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """Put commands of Slurm, each a line of shell, onto PATH, and no others."""
    for name, text in commands.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_states_of_squeue():
    found = read_squeue("12|PENDING|Resources|\n 13|RUNNING|None|node[1-2]\nslurm: noise\n")
    assert found["12"].waits
    assert found["12"].text == "waits in the queue (Resources)"
    assert found["13"].text == "runs on node[1-2]"
    assert set(found) == {"12", "13"}


@pytest.mark.parametrize(
    ("word", "ended"),
    [("COMPLETING", False), ("RUNNING", False), ("TIMEOUT", True), ("NODE_FAIL", True)],
)
def test_an_end_is_whatever_neither_waits_nor_goes_on(word: str, ended: bool):
    assert State(word=word).ended is ended


def test_what_can_never_start():
    assert State(word="PENDING", reason="PartitionTimeLimit").never_starts
    assert not State(word="PENDING", reason="Resources").never_starts


def test_scontrol_and_sacct():
    text = "JobId=9 JobName=x UserId=root(0) JobState=TIMEOUT Reason=TimeLimit NodeList=(null)"
    assert read_scontrol(text) == State(word="TIMEOUT", reason="TimeLimit")
    assert read_scontrol("slurm_load_jobs error: Invalid job id specified") is None
    assert read_sacct("CANCELLED by 1000\n") == State(word="CANCELLED")
    assert read_sacct("") is None


def test_without_sbatch_the_error_says_what_is_missing(tmp_path: Path, monkeypatch):
    fake(tmp_path, monkeypatch)
    with pytest.raises(CaseError, match=r"sbatch cannot be started .* must be on PATH"):
        SlurmQueue(queue_timeout_s=60).submit(request(tmp_path / "job"))


def test_a_refusal_is_reported_in_sbatchs_words(tmp_path: Path, monkeypatch):
    fake(tmp_path, monkeypatch, sbatch="echo 'error: Invalid account' >&2; exit 1")
    with pytest.raises(CaseError, match=r"exit code 1\): error: Invalid account; --dlperf-slurm"):
        SlurmQueue(queue_timeout_s=60).submit(request(tmp_path / "job"))


def test_a_job_that_everybody_has_forgotten_is_an_error_with_its_log(tmp_path: Path, monkeypatch):
    invalid = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    fake(
        tmp_path, monkeypatch, sbatch="echo '7;cluster'", squeue=invalid, scontrol=invalid,
        sacct="echo 'Slurm accounting storage is disabled' >&2; exit 1",
    )  # fmt: skip
    monkeypatch.setattr("pytest_dlperf.launch.schedulers.slurm_queue._SEEN_S", 0)
    queue = SlurmQueue(queue_timeout_s=60)
    job = queue.submit(request(tmp_path / "job"))
    assert job.number == "7"
    job.request.log.write_text("the last words\n", encoding="utf-8")
    with pytest.raises(CaseError, match=r"(?s)no longer knows it.*job\.log.*the last words"):
        queue.wait(job, tmp_path / "results.json", report=lambda _: None, between=lambda: None)


def test_a_controller_that_does_not_answer_is_waited_for_and_results_count(
    tmp_path: Path, monkeypatch
):
    fake(tmp_path, monkeypatch, sbatch="echo 7", squeue="echo 'Unable to contact' >&2; exit 1")
    queue = SlurmQueue(queue_timeout_s=60)
    job = queue.submit(request(tmp_path / "job"))
    results, said = tmp_path / "results.json", []

    def report(words: str) -> None:
        said.append(words)
        results.write_text("{}", encoding="utf-8")

    queue.wait(job, results, report=report, between=lambda: None)
    assert said == ["job 7 waits in the queue (Slurm does not answer: Unable to contact)"]


def test_a_job_that_waits_for_too_long_is_cancelled(tmp_path: Path, monkeypatch):
    fake(
        tmp_path, monkeypatch, sbatch="echo 7", squeue="echo '7|PENDING|Priority|'",
        scancel=f'echo "$@" >> {tmp_path}/cancelled',
    )  # fmt: skip
    queue = SlurmQueue(queue_timeout_s=0)
    job = queue.submit(request(tmp_path / "job"))
    with pytest.raises(CaseError, match=r"did not start within 0 s \(Priority\)"):
        queue.wait(job, tmp_path / "results.json", report=lambda _: None, between=lambda: None)
    assert (tmp_path / "cancelled").read_text() == "7\n"
    assert queue.cancel_all() == ""
    assert (tmp_path / "cancelled").read_text() == "7\n"


def test_what_cannot_be_cancelled_is_reported(tmp_path: Path, monkeypatch):
    fake(tmp_path, monkeypatch, sbatch="echo 7", scancel="echo 'no way' >&2; exit 1")
    queue = SlurmQueue(queue_timeout_s=60)
    queue.submit(request(tmp_path / "job"))
    assert queue.cancel_all() == (
        "jobs 7 could not be cancelled (no way); they end by themselves within a minute"
    )
