"""The file format of pytest-benchmark: a case is a benchmark, each of its runs a round.

Its unit is seconds: those that a run took for one iteration of all ranks, by the rate that the
verdict is of, so that ratios there are those of the throughputs. Each case is a group, so that
``pytest-benchmark compare A B`` puts the two sessions of a case beside each other.
"""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Environment, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.report.confirmation import pair_count

#: Of pytest-benchmark; readers use the fields and do not check it.
_VERSION: Final = "5.3.1"


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the text of the file; cases without a rate are not in it."""
    last = max(outcomes, key=lambda outcome: outcome.time, default=None)
    values = {
        "version": _VERSION,
        "datetime": "" if last is None else last.time.replace("Z", "+00:00"),
        "machine_info": _machine(next((o.environment for o in outcomes if o.environment), None)),
        "commit_info": _commit(last),
        "benchmarks": [
            _benchmark(outcome, seconds) for outcome in outcomes if (seconds := _seconds(outcome))
        ],
    }
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def remark(outcomes: Sequence[Outcome]) -> str:
    """Return how many cases are not in the file; empty if all are."""
    without = sum(not _seconds(outcome) for outcome in outcomes)
    return f"without {without} of {len(outcomes)} cases, which have no rate" if without else ""


def _seconds(outcome: Outcome) -> list[float]:
    """Return the seconds of an iteration of each run; nothing where a rate can be no rate."""
    measurement = outcome.measurement
    rates = () if measurement is None else measurement.throughputs
    if (
        outcome.interrupted
        or measurement is None
        or not rates
        or not all(0 < rate < float("inf") for rate in rates)
    ):
        return []
    of_runs = [_iteration_seconds(outcome.case, run) for run in measurement.runs]
    return [seconds for seconds in of_runs if seconds is not None] if None not in of_runs else []


def _iteration_seconds(case: Case, run: RunSummary) -> float | None:
    """Return the mean seconds of an iteration in the window; None where a log does not say."""
    if case.iteration_work is not None and not run.ranks:
        # A log may show some of its iterations alone
        return case.iteration_work / run.throughput
    if run.steps_are_relative:
        return None
    # The work of an iteration over the rate, also where a program says another work than the case
    first, end = case.protocol.window
    steps = run.step_seconds[first - end :]
    return statistics.fmean(steps) if steps else None


def _benchmark(outcome: Outcome, seconds: Sequence[float]) -> dict[str, Any]:
    case, measurement = outcome.case, outcome.measurement
    assert measurement is not None
    node_id = outcome.node_id or case.id
    return {
        "group": case.id,
        "name": node_id.rpartition("::")[2],
        "fullname": node_id,
        "params": {
            "suite": case.suite,
            "framework": case.framework,
            "size": case.size,
            "precision": case.precision,
            "batch_size_per_device": case.batch_size_per_device,
            "layout": str(case.layout),
        },
        "param": case.id,
        "extra_info": _figures(outcome, measurement),
        "options": {"warmup": True, "iterations": case.protocol.iterations},
        "stats": _stats(seconds),
    }


def _metrics(measurement: Measurement) -> dict[str, Any]:
    """Return the median of each metric that all runs have, with its unit."""
    names = sorted(set.intersection(*(set(run.metrics) for run in measurement.runs)))
    metrics = {}
    for name in names:
        runs = [run.metrics[name] for run in measurement.runs]
        metrics[name] = {
            "value": statistics.median(value.value for value in runs),
            "unit": runs[0].unit,
            "better": runs[0].better,
        }
    return {"metrics": metrics} if metrics else {}


def _figures(outcome: Outcome, measurement: Measurement) -> dict[str, Any]:
    judgement = outcome.judgement
    return {
        "case": outcome.case.id,
        "unit": f"{measurement.unit}/s",
        "throughput": outcome.judged_throughput,
        "speedup": measurement.speedup,
        "peak_memory_bytes": measurement.peak_memory_bytes,
        "verdict": judgement.verdict.value,
        "reason": judgement.reason,
        "change": judgement.throughput.judged_change,
        "sees": judgement.throughput.sees,
        "confirmed_against": outcome.confirmation.commit if outcome.confirmation else None,
        "pairs": pair_count(outcome.confirmation) if outcome.confirmation else 0,
        "machine_class": outcome.environment.machine_class if outcome.environment else None,
        **_metrics(measurement),
    }


def _stats(seconds: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    mean = statistics.fmean(ordered)
    stddev = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    q1, median, q3 = (
        statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    )
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    by_stddev = sum(abs(second - mean) > stddev for second in ordered)
    by_quartiles = sum(not low <= second <= high for second in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(ordered),
        "median": median,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": by_quartiles,
        "stddev_outliers": by_stddev,
        "outliers": f"{by_stddev};{by_quartiles}",
        "ld15iqr": ordered[min(bisect_left(ordered, low), len(ordered) - 1)],
        "hd15iqr": ordered[max(bisect_right(ordered, high) - 1, 0)],
        "ops": 1 / mean,
        "total": sum(ordered),
        "data": list(seconds),
        "iterations": 1,
    }


def _machine(environment: Environment | None) -> dict[str, Any]:
    """Return the names that pytest-benchmark gives to a machine, and all that is known of it."""
    if environment is None:
        return {}
    machine, software = environment.machine, environment.software
    return {
        "node": environment.node,
        "machine": environment.machine_class,
        "system": machine.get("os", ""),
        "python_version": software.get("python", ""),
        "cpu": {"brand_raw": machine.get("cpu", "")},
        "hardware": dict(machine),
        "software": dict(software),
    }


def _commit(last: Outcome | None) -> dict[str, Any]:
    if last is None or not last.commit:
        return {"id": "unversioned", "time": None, "dirty": False, "branch": "(unknown)"}
    return {"id": last.commit, "time": None, "dirty": last.dirty, "branch": "(unknown)"}
