"""The metrics that a case asks to be gated on: its own, and built-in ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Figure, Gate
from pytest_dlperf.core.metrics import METRICS, gate_of, words_of
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.verdict import GOOD, MEMORY_TOLERANCE, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import sentences
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.metrics import MetricValues, session_value
from pytest_dlperf.judge.screen import Spending
from pytest_dlperf.judge.stats import family, priors

#: Units whose figures depend neither on the speed of the machine nor on steps that drift.
_FIXED: Final = frozenset({"bytes"})
#: The tolerance where none is given: times of a start differ more than rates do.
_TOLERANCE: Final = 0.10


def check(case: Case, measurement: Measurement, stored: Sequence[Session]) -> None:
    """Raise ``CaseError`` where a gated metric is missing, or has another meaning than before.

    A built-in metric that neither side has may be missing: that layout or program lacks it.
    """
    for gate in case.metrics:
        now = figures(gate, measurement)
        before = [one.metrics[gate.name] for one in stored if gate.name in one.metrics]
        some = any(gate.name in run.metrics for run in measurement.runs)
        if not now and (some or before or gate.name not in METRICS):
            was = ", and stored sessions have it" if before else ""
            raise CaseError(
                f"{case.id}: metric {gate.name} is gated, and not every run has it{was}; "
                f"{_remedy(gate)}"
            )
        meanings = {(one.unit, one.better) for one in now}
        meanings |= {(one.unit, one.better) for one in before}
        if len(meanings) > 1:
            words = " and ".join(
                f"unit {unit!r}, better {better!r}" for unit, better in sorted(meanings)
            )
            raise CaseError(
                f"{case.id}: metric {gate.name} has more than one meaning among its runs and the "
                f"stored sessions ({words}); give the new one another name"
            )
        values = [one.value for one in now] + [value for one in before for value in one.runs]
        if not gate_of(gate).is_count and any(value <= 0 for value in values):
            raise CaseError(
                f"{case.id}: metric {gate.name} has a value of {min(values):g}, and changes are "
                'compared as shares of values above 0; gate it as a count ("count")'
            )


def figures(gate: Gate, measurement: Measurement) -> list[Figure]:
    """Return the metric of each run; nothing where a run lacks it."""
    found = [run.metrics[gate.name] for run in measurement.runs if gate.name in run.metrics]
    return found if len(found) == len(measurement.runs) else []


def _remedy(gate: Gate) -> str:
    if gate.name in METRICS:
        return f"it needs {METRICS[gate.name].needs}"
    known = ", ".join(sorted(METRICS))
    return (
        "report it with mark.metric or job.metric until the window ends, or look at its name "
        f"(built in: {known})"
    )


def compared(
    case: Case, measurement: Measurement, stored: Sequence[Session], rule: Rule, spent: Spending
) -> dict[str, Comparison]:
    """Return the comparison of each gated metric that both sides have."""
    found = {}
    for gate in case.metrics:
        now = figures(gate, measurement)
        before = [one.metrics[gate.name].runs for one in stored if gate.name in one.metrics]
        if not now or not before:
            continue
        values = [one.value for one in now]
        whole = gate_of(gate)
        if whole.is_count:
            # The newest, so that what got better stays so
            found[gate.name] = count(values, before[-1], now[0])
            continue
        sign = 1 if now[0].better == "higher" else -1
        metric = MetricValues(
            now=session_value(values, sign=sign),
            stored=tuple(session_value(runs, sign=sign) for runs in before),
            prior=priors.of_figure(now[0].unit, case.layout.device),
            sign=sign,
        )
        part = family.of_other(rule, len(case.metrics))
        found[gate.name] = compare(metric, tolerance_of(whole, now[0].unit), part, spent)
    return found


def tolerance_of(gate: Gate, unit: str) -> float:
    """Return the change for the worse up to which a metric in ``unit`` passes.

    The one of its marker, or of the table of metrics, else 2 % of bytes and 10 % of all others.
    """
    if gate.tolerance is not None:
        return gate.tolerance
    return MEMORY_TOLERANCE if unit == "bytes" else _TOLERANCE


def count(now: Sequence[float], before: Sequence[float], figure: Figure) -> Comparison:
    """Return the comparison of counts: the worst run now, and the worst run before."""
    worst = max if figure.better == "lower" else min
    mine, theirs = worst(now), worst(before)
    worse = mine > theirs if figure.better == "lower" else mine < theirs
    verdict = Verdict.PASSED if mine == theirs else Verdict.IMPROVED
    return Comparison(
        now=mine,
        before=theirs,
        change=mine / theirs - 1 if theirs else None,
        tolerance=0.0,
        verdict=Verdict.REGRESSED if worse else verdict,
    )


def apart_from_speed(case: Case, measurement: Measurement) -> frozenset[str]:
    """Return the gated metrics that count although the machine moved or steps drift."""
    return frozenset(
        gate.name
        for gate in case.metrics
        if gate_of(gate).is_count or any(one.unit in _FIXED for one in figures(gate, measurement))
    )


def sentence(case: Case, name: str, found: Comparison, unit: str, *, is_paired: bool) -> str:
    """Return by how much a metric got worse, or why it is open."""
    remedy = "find what changed" + ("" if is_paired else f", or {sentences.ACCEPT_LEVEL}")
    more = "allow more pairs with --dlperf-max-runs" if is_paired else sentences.SIDE_BY_SIDE
    gate = gate_of(next(one for one in case.metrics if one.name == name))
    sides = f"{shown(found.before, unit)} to {shown(found.now, unit)}"
    words = words_of(name)
    if gate.is_count:
        return f"{words}: {sides}, and any change for the worse fails; {remedy}"
    low, high = found.interval or (0.0, 0.0)
    change = (
        f"{words} changed by {sentences.signed(found.change or 0.0)} ({sides}; 90 % interval "
        f"{sentences.signed(low)} to {sentences.signed(high)})"
    )
    tolerance = sentences.percent(found.tolerance or 0.0)
    if found.verdict is Verdict.REGRESSED:
        return f"{change}, certainly for the worse; {remedy}"
    return (
        f"{change}: neither certainly within its tolerance of {tolerance} nor certainly worse; "
        f"{more}, or allow more in metrics of the marker"
    )


def shown(value: float | None, unit: str) -> str:
    """Return a figure with its unit; bytes as MiB."""
    if value is None:
        return "--"
    if unit == "bytes":
        return f"{amount(value / 2**20)} MiB"
    return f"{amount(value)} {unit}".rstrip()


def with_gates(
    judged: Judgement,
    case: Case,
    measurement: Measurement,
    found: Mapping[str, Comparison],
    *,
    is_refused: bool = False,
    is_paired: bool = False,
) -> Judgement:
    """Fail a case for a gated metric that is certainly worse, and open it for one that is open.

    And say which gated metrics could not be judged. ``is_paired``: with those of another arm.
    """
    if not case.metrics:
        return judged
    units = {name: one.unit for name, one in measurement.runs[0].metrics.items()}
    judged = replace(judged, metrics={**judged.metrics, **found})
    worse, undecided = (
        "; ".join(
            sentence(case, name, one, units.get(name, ""), is_paired=is_paired)
            for name, one in found.items()
            if one.verdict is verdict
        )
        for verdict in (Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    )
    if worse and judged.verdict is Verdict.REGRESSED:
        judged = replace(judged, reason=f"{judged.reason}; {worse}")
    elif worse:
        reason = f"{worse}; throughput: {judged.reason}"
        judged = replace(judged, verdict=Verdict.REGRESSED, reason=reason)
    elif undecided and judged.verdict in GOOD:
        reason = f"{undecided}; throughput: {judged.reason}"
        judged = replace(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)
    elif undecided:
        judged = replace(judged, reason=f"{judged.reason}; {undecided}")
    if is_refused:
        return judged
    unstored = "no stored session has it"
    if judged.verdict in GOOD:
        unstored += ": store one with --update-baselines"
    apart = "the other arm does not report it" if is_paired else unstored
    words = _missing(case, measurement, found, apart)
    return replace(judged, reason=judged.reason + words)


def with_certain(
    failed: Judgement, case: Case, measurement: Measurement, asked: Mapping[str, Comparison]
) -> Judgement:
    """Fail a case whose rate is not judged for those gated metrics that speed does not move."""
    fixed = apart_from_speed(case, measurement)
    certain = {
        name: one
        for name, one in asked.items()
        if name in fixed and one.verdict is Verdict.REGRESSED
    }
    return with_gates(failed, case, measurement, certain, is_refused=True)


def _missing(
    case: Case, measurement: Measurement, found: Mapping[str, Comparison], apart: str
) -> str:
    """Return which gated metrics were not compared, and why; ``apart``: it was not before."""
    words = ""
    for gate in case.metrics:
        if gate.name in found:
            continue
        why = apart
        if not figures(gate, measurement):
            why = f"this run has none: it needs {METRICS[gate.name].needs}"
        words += f"; {words_of(gate.name)} is not judged, as {why}"
    return words
