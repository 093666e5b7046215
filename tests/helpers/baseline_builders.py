"""Outcomes and baselines, made of numbers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Problem, RankSummary, RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.store.baseline import update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.store.baseline.store import BaselineStore

MACHINE = "2x-test-cpu"
CASE = Case(
    suite="tsm",
    framework="torch",
    workload="mymodel:build",
    precision="fp32",
    batch_size_per_device=2,
    size="tiny",
    layout=Layout.parse("1n2c"),
    protocol=Protocol(),
)
CASE_ID = "tsm.tiny-torch-fp32-bs2-1n2c"
PLACE = (MACHINE, "tsm", CASE_ID)
CONDITIONS = Conditions(
    window=(50, 150),
    launcher="torchrun",
    world_size=2,
    batch_size_per_device=2,
    unit="samples",
    dtype="float32",
    data="synthetic",
    parameter_count=1000,
    input_shapes=((2, 3, 8, 8), (2,)),
    options={"segments": 8, "lr": 0.1},
    threads_per_rank=1,
    host_sharing=False,
    hardware=MACHINE,
    version=1,
)
ENVIRONMENT = Environment(
    machine_class=MACHINE,
    hardware=MACHINE,
    node="node1",
    software={"torch": "2.13.0", "python": "3.11.7"},
    machine={"cpu": "Test CPU"},
)


def session(*runs: float, second: int = 0, **fields: Any) -> Session:
    return Session(time=f"2026-11-21T04:02:{second:02}Z", runs=runs or (35.5, 35.25), **fields)


def baseline(*sessions: Session, **fields: Any) -> Baseline:
    fields = {
        "case_id": CASE_ID,
        "machine_class": MACHINE,
        "suite": "tsm",
        "unit": "samples",
        "conditions": CONDITIONS,
    } | fields
    return Baseline(sessions=sessions or (session(),), **fields)


def run(
    throughput: float,
    *,
    memory: int = 1024,
    canary: dict[str, float] | None = None,
    losses: Sequence[tuple[float, float]] = ((2.0, 1.0), (2.0, 1.5)),
) -> RunSummary:
    ranks = tuple(
        RankSummary(
            rank=i,
            node="node1",
            seconds=1.0,
            cpu_seconds=1.0,
            peak_memory_bytes=memory,
            loss_first=first,
            loss_last=last,
        )
        for i, (first, last) in enumerate(losses)
    )
    return RunSummary(
        throughput=throughput,
        estimates={"median_step": throughput},
        step_seconds=(0.1, 0.1),
        ranks=ranks,
        peak_memory_bytes=memory,
        time_to_first_step_s=1.0,
        canary={"matmul": 10.0} if canary is None else canary,
        others_cpu_share=0.01,
    )


def measurement(
    *rates: float, problem: str = "", runs: Sequence[RunSummary] = (), **fields: Any
) -> Measurement:
    values: dict[str, Any] = {
        "case_id": CASE_ID,
        "unit": "samples",
        "conditions": CONDITIONS,
        "runs": tuple(runs) or tuple(run(rate) for rate in rates),
        "parent_throughputs": (20.0, 20.1),
        "problems": (Problem(code=problem, message="it was so."),) if problem else (),
    }
    return Measurement(**values | fields)


def outcome(
    *rates: float,
    verdict: Verdict = Verdict.PASSED,
    second: int = 0,
    measured: Measurement | None = None,
    **fields: Any,
) -> Outcome:
    values: dict[str, Any] = {
        "case": CASE,
        "judgement": Judgement(verdict=verdict, reason="so it is"),
        "measurement": measured or measurement(*(rates or (35.5, 35.25, 35.75))),
        "environment": ENVIRONMENT,
        "time": f"2026-11-21T05:00:{second:02}Z",
        "commit": "0123abc",
    }
    return Outcome(**values | fields)


def conditions(**fields: Any) -> Conditions:
    return replace(CONDITIONS, **fields)


def applied(before: Baseline | None, found: Outcome, reason: str = "") -> tuple[Baseline, str]:
    return update.apply(before, found, reason=reason, today=found.time)


def write(store: BaselineStore, found: Outcome, *, reason: str) -> update.Change:
    """Store what was judged against the stored sessions, whatever they are."""
    return update.write(
        store, found, reason=reason, judge_again=lambda outcome, _: outcome.judgement
    )
