"""Pairs that others disturbed."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.run import MeasuredRun, RunSummary
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab import BEFORE, NOW, _counted, _judged_as_pair

BUSY = "others used the machine"


def run(disturbed: str = "") -> MeasuredRun:
    summary = RunSummary(
        throughput=100.0,
        estimates={},
        step_seconds=(),
        ranks=(),
        peak_memory_bytes=None,
        time_to_first_step_s=None,
        canary={},
        others_cpu_share=None,
        disturbed=disturbed,
    )
    return MeasuredRun(summary, RunFacts())


def as_pair(now: MeasuredRun, before: MeasuredRun) -> list[str]:
    """Return why either run of a pair does not count, as it is reported."""
    judged = _judged_as_pair({NOW: now, BEFORE: before})
    return [judged[side].summary.disturbed for side in (NOW, BEFORE)]


def test_both_runs_of_a_pair_count_or_neither() -> None:
    assert as_pair(run(BUSY), run(BUSY)) == [BUSY, BUSY]
    assert as_pair(run(BUSY), run()) == [BUSY, f"the other run of its pair: {BUSY}"]
    assert as_pair(run(), run()) == ["", ""]


def test_a_disturbed_run_that_counts_says_so() -> None:
    measured = _counted(run(BUSY), "both met it")
    [note] = measured.summary.problems
    assert (note.code, note.message) == ("shared-machine", f"{BUSY}: both met it")
    assert replace(measured.summary, problems=()) == run().summary
    assert _counted(run(), "both met it") == run()
