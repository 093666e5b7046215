"""What a session remembers of its runs, whatever a process that was killed has left."""

from __future__ import annotations

from pathlib import Path

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.run import MeasuredRun, RunSummary
from pytest_dlperf.store.history.session_runs import SessionRuns

[CASE] = expand(suite="tsm", workload="m:build", batch_size_per_device=4, layout="1n1c")


def run(throughput: float) -> RunSummary:
    return RunSummary(
        throughput=throughput,
        estimates={},
        step_seconds=(0.1, 0.2),
        ranks=(),
        peak_memory_bytes=None,
        time_to_first_step_s=None,
        canary={},
        others_cpu_share=None,
    )


def test_half_a_line_is_no_run_and_spoils_no_other(tmp_path: Path):
    runs = SessionRuns(tmp_path)
    runs.append(CASE, MeasuredRun(run(1.0), {"unit": "clips"}))
    path = tmp_path / CASE.id / "runs.jsonl"
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole + whole[:length])
        assert runs.load(CASE) == [(run(1.0), {"unit": "clips"})]
        runs.append(CASE, MeasuredRun(run(2.0), {}))
        assert [found.summary.throughput for found in runs.load(CASE)] == [1.0, 2.0]


def test_runs_of_processes_that_inherit_something_else_are_not_loaded(tmp_path: Path):
    """As of a one-device parent that two workers of pytest-xdist need."""
    for inherited, rate in (("a", 1.0), ("b", 2.0)):
        runs = SessionRuns(tmp_path, inherited=inherited)
        assert runs.load(CASE) == []
        runs.append(CASE, MeasuredRun(run(rate), {}))
        assert [found.summary.throughput for found in runs.load(CASE)] == [rate]
    # All of an ended session
    assert len(SessionRuns(tmp_path).load(CASE)) == 2
