"""Outcomes and published numbers of the frameworks of the source reports, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_dlperf.core.baseline import Baseline, Session, Source
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import Against, Confirmation, Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict

MACHINE = "8x-v100-sxm2-32gb"
ENVIRONMENT = Environment(
    machine_class=MACHINE,
    hardware=MACHINE,
    node="node1",
    software={
        "torch": "2.13.0",
        "driver": "450.80.02",
        "cuda": "11.0",
        "cudnn": "8.0.4",
        "nccl": "2.7.3",
        "python": "3.11.7",
    },
    machine={
        "os": "CentOS release 6.3 (Final)",
        "gpu": "Tesla V100-SXM2-32GB * 8",
        "cpu": "Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz * 48",
        "memory": "502 GiB",
    },
)


def case(
    framework: str = "torch",
    layout: str = "1n8g",
    *,
    suite: str = "tsm",
    precision: str = "amp",
    batch_size: int = 16,
    **fields: Any,
) -> Case:
    return Case(
        suite=suite,
        framework=framework,
        workload="mymodel:build",
        precision=precision,
        batch_size_per_device=batch_size,
        layout=Layout.parse(layout),
        **fields,
    )


def environment(framework: str = "torch", version: str = "2.13.0", **software: str) -> Environment:
    others = {k: v for k, v in ENVIRONMENT.software.items() if k != "torch"}
    return replace(ENVIRONMENT, software={framework: version, **others, **software})


def conditions(of: Case, **fields: Any) -> Conditions:
    values: dict[str, Any] = {
        "window": (50, 150),
        "launcher": "torchrun",
        "world_size": of.world_size,
        "batch_size_per_device": of.batch_size_per_device,
        "unit": of.unit,
        "dtype": "float16",
        "data": "synthetic",
        "parameter_count": 1000,
        "input_shapes": ((16, 3, 8, 8),),
        "options": {},
        "threads_per_rank": 6,
        "host_sharing": False,
        "hardware": MACHINE,
        "version": 1,
    }
    return Conditions(**values | fields)


def run(rate: float) -> RunSummary:
    return RunSummary(
        throughput=rate,
        estimates={},
        step_seconds=(0.1,),
        ranks=(),
        peak_memory_bytes=1024,
        time_to_first_step_s=1.0,
        canary={},
        others_cpu_share=0.0,
    )


def measured(
    of: Case,
    *rates: float,
    alone: float | None = None,
    verdict: Verdict = Verdict.PASSED,
    reason: str = "so it is",
    inject: float = 0.0,
    conditions_: dict[str, Any] | None = None,
    **fields: Any,
) -> Outcome:
    """Return an outcome of ``rates``; ``alone`` is the rate of its one-device parent."""
    measurement = Measurement(
        case_id=of.id,
        unit=of.unit,
        conditions=conditions(of, **conditions_ or {}),
        runs=tuple(run(rate) for rate in rates),
        parent_throughputs=() if alone is None else (alone,),
        inject=inject,
    )
    values: dict[str, Any] = {
        "case": of,
        "judgement": Judgement(verdict=verdict, reason=reason),
        "measurement": measurement,
        "environment": environment(of.framework),
        "time": "2026-11-21T05:00:00Z",
    }
    return Outcome(**values | fields)


def unmeasured(of: Case, verdict: Verdict, reason: str, **fields: Any) -> Outcome:
    started = replace(ENVIRONMENT, software={"driver": "450.80.02"})
    values: dict[str, Any] = {"environment": started, "time": "2026-11-21T05:00:00Z"}
    return Outcome(case=of, judgement=Judgement(verdict=verdict, reason=reason), **values | fields)


def published(of: Case, rate: float, *, speedup: float | None = None, **facts: Any) -> Baseline:
    return Baseline(
        case_id=of.id,
        machine_class=MACHINE,
        suite=of.suite,
        unit=of.unit,
        sessions=(Session(time="", runs=(rate,), speedup=speedup),),
        conditions=None,
        source=Source(kind="published", document="TSM report (性能复现)", table="AMP结果"),
        facts=facts,
    )


def decided(of: Outcome, code: str = "worse", metric: str = "peak_memory") -> Outcome:
    """Return ``of`` as a finding of that code made it regress, beside a throughput that passed."""
    passed = Finding(code="within-tolerance", weight=Weight.GREEN, metric="throughput")
    finding = Finding(code=code, weight=Weight.FACT, metric=metric, figures={"change": 0.25})
    judgement = Judgement(verdict=Verdict.REGRESSED, reason="so it is", findings=(passed, finding))
    return replace(of, judgement=judgement)


COMMIT = "1a2b3c4" + "0" * 33


def confirmed(
    of: Outcome, pairs: Outcome | None = None, *, verdict: Verdict = Verdict.PASSED
) -> Outcome:
    """Return ``of`` as pairs with ``COMMIT`` decided it; ``pairs`` are those of an A/B."""
    measurement = of.measurement if pairs is None else pairs.measurement
    against = Against(name=COMMIT[:7], kind="ref", commit=COMMIT, measurement=measurement)
    if pairs is not None and pairs.against is not None:
        against = replace(pairs.against, name=COMMIT[:7], kind="ref", commit=COMMIT)
    judgement = Judgement(verdict=verdict, reason="of the pairs")
    confirmation = Confirmation(
        stored=of.judgement,
        commit=COMMIT,
        pairs=judgement if pairs is None else pairs.judgement,
        against=against,
        measurement=measurement,
        elapsed_s=120.0,
    )
    final = confirmation.pairs
    assert final is not None
    return replace(of, judgement=final, confirmation=confirmation)
