"""Cases, measurements and baselines, made of numbers alone."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_dlperf.core.baseline import Baseline, Session, Source
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.metrics import EVERY_CASE
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Problem, RunSummary
from pytest_dlperf.core.verdict import Comparison, Rule
from pytest_dlperf.judge import judge, more_runs
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.metrics import CaseMetric
from pytest_dlperf.judge.stats.paired import contrast_of, pairs_of
from pytest_dlperf.judge.stats.priors import PAIRS
from pytest_dlperf.judge.verdict import judged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.verdict import Judgement, Prior
    from pytest_dlperf.judge.stats.contrast import Contrast

CONDITIONS = Conditions(
    window=(50, 150),
    launcher="torchrun",
    world_size=2,
    batch_size_per_device=4,
    unit="images",
    dtype="float32",
    data="synthetic",
    parameter_count=1000,
    input_shapes=((4, 3, 8, 8),),
    options={},
    threads_per_rank=1,
    host_sharing=False,
    hardware="2x-test",
    version=1,
)


def case(layout: str = "1n2c", **fields: Any) -> Case:
    fields = {
        "suite": "toy",
        "framework": "torch",
        "workload": "toy:build",
        "precision": "fp32",
        "batch_size_per_device": 4,
        "unit": "images",
    } | fields
    return Case(layout=Layout.parse(layout), **fields)


def run(
    throughput: float, memory: int = 0, canary: Mapping[str, float] | None = None
) -> RunSummary:
    return RunSummary(
        throughput=throughput,
        estimates={},
        step_seconds=(),
        ranks=(),
        peak_memory_bytes=memory,
        time_to_first_step_s=1.0,
        canary=canary or {},
        others_cpu_share=None,
    )


def measurement(
    rates: Sequence[float],
    *,
    parent: Sequence[float] = (),
    memory: int = 0,
    canary: Mapping[str, float] | None = None,
    problem: str = "",
    message: str = "it was so",
    **fields: Any,
) -> Measurement:
    fields = {"case_id": "toy", "unit": "images", "conditions": CONDITIONS} | fields
    return Measurement(
        runs=tuple(run(rate, memory, canary) for rate in rates),
        parent_throughputs=tuple(parent),
        problems=(Problem(code=problem, message=message),) if problem else (),
        **fields,
    )


def session(
    rates: Sequence[float],
    *,
    parent: Sequence[float] = (),
    memory: int = 0,
    canary: Mapping[str, float] | None = None,
) -> Session:
    return Session(
        time="2026-01-01T00:00:00Z",
        runs=tuple(rates),
        speedup=statistics.median(rates) / statistics.median(parent) if parent else None,
        parent_runs=tuple(parent),
        peak_memory_bytes=(memory,) * len(rates) if memory else (),
        canary=canary or {},
    )


def baseline(*sessions: Session, **fields: Any) -> Baseline:
    fields = {
        "case_id": "toy",
        "machine_class": "2x-test",
        "suite": "toy",
        "unit": "images",
        "conditions": CONDITIONS,
    } | fields
    return Baseline(sessions=sessions, **fields)


def published(*rates: float) -> Baseline:
    source = Source(kind="published", document="report 002", table="fp32")
    return baseline(session(rates), conditions=None, source=source)


def around(level: float, spread: float = 0.005, runs: int = 5) -> list[float]:
    """Runs spread evenly about a level: their median is it."""
    return [level * float(np.exp(spread * (i - (runs - 1) / 2))) for i in range(runs)]


class Noise:
    """Draws sessions of an unchanged case, or of one that became slower."""

    def __init__(self, seed: int, *, session_sd: float, run_sd: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.session_sd, self.run_sd = session_sd, run_sd

    def rates(self, level: float, count: int) -> list[float]:
        return [float(x) for x in level * np.exp(self.rng.normal(0, self.run_sd, count))]

    def level(self) -> float:
        return 100 * float(np.exp(self.rng.normal(0, self.session_sd)))

    def baseline(self, sessions: int) -> Baseline:
        return baseline(*(session(self.rates(self.level(), 5)) for _ in range(sessions)))

    def screened(self, subject: Case, sessions: int, rule: Rule, slower: float = 0.0) -> Judgement:
        """Measure and judge as the pipeline does: look, and launch more where asked."""
        before = self.baseline(sessions)
        level = self.level() * (1 - slower)
        rates: list[float] = []
        judgement: Judgement | None = None
        while more := more_runs(subject, judgement, len(rates)):
            rates += self.rates(level, more)
            judgement = judge(subject, measurement(rates), before, rule)
        assert judgement is not None
        return judgement


def fixed_runs(runs: int = 5) -> Protocol:
    return replace(Protocol(runs=runs, max_runs=max(10, runs)), adaptive=False)


def paired_contrast(now: Sequence[float], before: Sequence[float], prior: Prior) -> Contrast:
    """Compare the pairs of two arms, given as logs."""
    return contrast_of(pairs_of(now, before), prior)


def judged_by(throughput: Comparison | None = None, **fields: Any) -> Judgement:
    """Return what the judge makes of comparisons; ``evidence_by`` has the fields."""
    return judged(evidence_by(throughput, **fields))


def evidence_by(
    throughput: Comparison | None = None,
    *,
    kind: Kind = Kind.SESSIONS,
    problem: str = "",
    than: str = "stored",
    differences: tuple[str, ...] = (),
    **metrics: Comparison,
) -> Evidence:
    """Return evidence that has these comparisons, whatever the values behind them are."""
    rate = {} if throughput is None else {"throughput": throughput}
    prior = PAIRS["gpu"]
    return Evidence(
        kind=kind,
        rule=Rule(),
        unit="images",
        throughput=None if throughput is None else throughput.now,
        against="the baseline" if than == "stored" else than,
        than=than,
        problems=((Problem(code=problem, message="it was so"),),) if problem else (),
        differences=differences,
        comparisons=rate | metrics,
        metrics={
            name: CaseMetric(
                name=name,
                value_in=lambda _session: None,
                prior=prior,
                is_count=compared.interval is None,
                is_gate=True,
            )
            for name, compared in metrics.items()
            if name not in EVERY_CASE
        },
        contrast=paired_contrast([0.0] * 3, [0.0] * 3, prior),
        figures={"adaptive": True, "runs": 5, "run_s": 0.0},
    )
