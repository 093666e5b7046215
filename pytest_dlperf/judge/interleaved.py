"""Judges an interleaved A/B: a case measured in pairs of runs, one of each arm, no baseline."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import amount, same_unit
from pytest_dlperf.core.run import RunSummary, stored_scaling
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import convergence, gates, metrics, refusals, scaling, sentences
from pytest_dlperf.judge.compare import is_certainly_slower
from pytest_dlperf.judge.pairs import Pairs, took_turns


def judge_interleaved(
    case: Case,
    now: Measurement,
    before: Measurement,
    rule: Rule,
    *,
    varied: Collection[str] = (),
    against: str = "the other arm",
) -> Judgement:
    """Return the verdict on one case; run i of ``now`` and run i of ``before`` are a pair.

    ``varied`` are the conditions that the arms differ in on purpose; ``against`` names the arm
    of ``before``. Raises ``CaseError`` for rates that are not positive finite numbers, and for
    runs without a pair.
    """
    _check(now, before)
    gates.check(case, now, ())
    gates.check(_reported(case, before), before, ())
    differs = _differences(now, before, varied)
    fault = "" if differs else _fault(case, now, before)
    refused = _first(refusals.unchecked, now, before) or differs
    if refused and not same_unit(now.unit, before.unit):
        return _not_judged(Verdict.INCOMPARABLE, refused, now)
    if took_turns(now, before):
        # Arms that drift alike met the same machine, so that their difference counts
        now, before = map(refusals.without_drift_of_machine, (now, before))
    pairs = Pairs(case, now, before, rule)
    found, evidence, by_median = pairs.throughput()
    if fault:
        return _not_judged(Verdict.ERROR, fault, now, found)
    others, asked = pairs.metrics(), pairs.gated()
    window = others.get("whole_window")
    if refused:
        return _not_judged(Verdict.INCOMPARABLE, refused, now, found)
    unsteady = _message((now, before), refusals.UNSTEADY)
    if unsteady and not pairs.slower_by_all((found, window)):
        first = (
            "runs of its pairs vary or drift too much; look at their records, and measure again"
        )
        reason = f"{first}\n{unsteady}"
        unknown = _with_memory(_not_judged(Verdict.UNSTEADY, reason, now, found), others)
        return gates.with_certain(unknown, case, now, asked)
    found = replace(found, runs_needed=_needed(found, window))
    takes = _what_it_takes(found, now.runs, before.runs, case.protocol)
    judged = Judgement(
        verdict=found.verdict or Verdict.INCONCLUSIVE,
        reason=_of_throughput(
            found,
            rule,
            _how(found, now, before, against=against, by_median=by_median),
            takes,
            slower=is_certainly_slower(evidence, pairs.throughput_rule, pairs.spent),
        ),
        throughput=found,
        metrics=others,
    )
    judged = _with_why(_with_metrics(judged), case, now, before)
    judged = gates.with_gates(judged, case, now, asked, is_paired=True)
    if judged.verdict in GOOD and window is not None and window.verdict is Verdict.INCONCLUSIVE:
        words = _window_is_open(window, takes)
        reason = f"{words}; the median iteration: {judged.reason}"
        return replace(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)
    return judged


def _with_why(judged: Judgement, case: Case, now: Measurement, before: Measurement) -> Judgement:
    """Add what makes devices wait, where a training on several of them became slower.

    The arms are not measured on one device, so whether speedup fell is unknown.
    """
    if judged.throughput.verdict is not Verdict.REGRESSED or case.world_size < 2:
        return judged
    device = case.layout.device
    words = scaling.why(now.runs, [stored_scaling(before.runs, device)], device)
    return replace(judged, reason=f"{judged.reason}; {words}") if words else judged


def _needed(found: Comparison, window: Comparison | None) -> int | None:
    """Return how many pairs would decide what is open; None where no number would, or nothing is.

    A case passes only if both its median iteration and the whole window are certified.
    """
    needed = [
        one.runs_needed
        for one in (found, window)
        if one is not None and one.verdict is Verdict.INCONCLUSIVE
    ]
    known = [count for count in needed if count is not None]
    return max(known) if known and len(known) == len(needed) else None


def _check(now: Measurement, before: Measurement) -> None:
    if len(now.runs) != len(before.runs) or not now.runs:
        raise CaseError(
            f"{now.case_id}: {len(now.runs)} runs and {len(before.runs)} of the other arm do not "
            "form pairs, so there is nothing to judge"
        )
    metrics.check_rates(now.throughputs, f"{now.case_id}, a run")
    metrics.check_rates(before.throughputs, f"{now.case_id}, a run of the other arm")


def _differences(now: Measurement, before: Measurement, varied: Collection[str]) -> str:
    kept = {name: getattr(now.conditions, name) for name in varied}
    found = now.conditions.differences(replace(before.conditions, **kept))
    if not found:
        return ""
    return (
        "the arms were not measured under the same conditions; compare arms that do the same work"
        f"\n{', '.join(found)}: this arm's, then the other's"
    )


def _fault(case: Case, now: Measurement, before: Measurement) -> str:
    sessions = [
        Session(time="", runs=(run.throughput,), loss_fall=run.loss_fall) for run in before.runs
    ]
    return convergence.fault(case, now, sessions, whose="the other arm's")


def _message(measured: Sequence[Measurement], codes: Collection[str]) -> str:
    found = [
        problem.message for one in measured for problem in one.problems if problem.code in codes
    ]
    return ", and ".join(dict.fromkeys(message.strip().rstrip(".") for message in found))


def _first(refusal: Callable[[Measurement], str], *measured: Measurement) -> str:
    return next((reason for one in measured if (reason := refusal(one))), "")


def _not_judged(
    verdict: Verdict, reason: str, now: Measurement, found: Comparison | None = None
) -> Judgement:
    """Return a judgement that keeps what was ``found``: the change is shown, and not judged."""
    known = Comparison(now=now.throughput, verdict=verdict)
    if found is not None:
        known = found.as_refused(verdict)
    return Judgement(verdict=verdict, reason=reason, throughput=known)


def _with_memory(refused: Judgement, others: Mapping[str, Comparison]) -> Judgement:
    """Fail a case whose peak memory certainly grew: drifting steps do not explain it."""
    memory = others.get("peak_memory")
    return (
        refused
        if memory is None
        else _with_metrics(replace(refused, metrics={"peak_memory": memory}))
    )


def _reported(case: Case, before: Measurement) -> Case:
    """Return ``case`` with the gates on what any run has: an older program may lack a metric."""
    known = {name for run in before.runs for name in run.metrics}
    return replace(case, metrics=tuple(one for one in case.metrics if one.name in known))


def _with_metrics(judged: Judgement) -> Judgement:
    """Fail the case for a metric that is certainly worse, or say why it does not fail.

    More CPU seconds for a faster training are a trade-off, and do not fail the case.
    """
    worse = {name: m for name, m in judged.metrics.items() if m.verdict is Verdict.REGRESSED}
    cpu = worse.get("cpu_seconds")
    if cpu is not None and judged.verdict is Verdict.IMPROVED:
        reason = f"{judged.reason}; {_of_metric('cpu_seconds', cpu)}"
        judged = replace(judged, reason=reason)
        del worse["cpu_seconds"]
    if not worse:
        return judged
    words = "; ".join(_of_metric(name, found) for name, found in worse.items())
    if judged.verdict is Verdict.REGRESSED:
        return replace(judged, reason=f"{judged.reason}; {words}")
    reason = f"{words}; throughput: {judged.reason}"
    return replace(judged, verdict=Verdict.REGRESSED, reason=reason)


def _how(
    found: Comparison, now: Measurement, before: Measurement, *, against: str, by_median: bool
) -> str:
    """Return by how much the throughput changed, in how many pairs of runs.

    ``by_median``: the rates are those of the median iteration.
    """
    by = " at the median iteration" if by_median else ""
    pairs = len(now.runs)
    count = f"{pairs} {'pair' if pairs == 1 else 'pairs'} of runs"
    if took_turns(now, before):
        count += " in lock-step"
    return f"{sentences.how_much(found, now.unit, against, by)} in {count}"


def _of_throughput(found: Comparison, rule: Rule, how: str, takes: str, *, slower: bool) -> str:
    """Return the sentence of a throughput that was judged by pairs of runs.

    ``slower``: the slowdown is certain, even if the case passed. ``takes`` is ``_what_it_takes``.
    """
    percent = sentences.percent
    tolerance = percent(found.tolerance or 0.0)
    if found.verdict is Verdict.IMPROVED:
        return how
    if found.verdict is Verdict.PASSED:
        if slower:
            return (
                f"certainly slower: {how}, yet certified within the tolerance of {tolerance}; "
                "lower --dlperf-tolerance if that is too much"
            )
        return (
            f"{how}, certified within the tolerance of {tolerance}; a slowdown of "
            f"{percent(found.sees or 0.0)} would have been detected"
        )
    if found.verdict is Verdict.REGRESSED:
        return f"{how}, certainly more than {percent(rule.min_effect)}; find what changed"
    open_words = sentences.undecided(found, rule, "this noise")
    return f"{how}: {open_words}; {takes}, or allow more with --dlperf-tolerance"


def _what_it_takes(
    found: Comparison,
    now: Sequence[RunSummary],
    before: Sequence[RunSummary],
    protocol: Protocol,
) -> str:
    """Return how many further pairs would decide what is open, and how long they would take."""
    if found.runs_needed is None:
        return "not even 1000 pairs would decide it: they vary too much for a change of this size"
    seconds = sum(statistics.median(run.elapsed_s for run in runs) for runs in (now, before))
    more = found.runs_needed - len(now)
    took = f" (about {math.ceil(more * seconds / 60)} min)" if seconds else ""
    words = f"{more} more {'pair' if more == 1 else 'pairs'}{took} would decide it"
    return f"{words}: {sentences.ask_for(found.runs_needed, protocol)}"


def _window_is_open(found: Comparison, takes: str) -> str:
    """Return why a case that is certified by its median iteration is not passed."""
    return (
        f"{_window(found)}, which is not certainly within the tolerance of "
        f"{sentences.percent(found.tolerance or 0.0)}, as iterations stall more in some runs than "
        f"in others, and only a slowdown measured beyond {sentences.percent(found.sees or 0.0)} "
        f"is certain there; {takes}, or allow more with --dlperf-tolerance"
    )


def _of_metric(name: str, found: Comparison) -> str:
    """Return by how much a metric got worse."""
    if name == "whole_window":
        return f"{_window(found)}: some iterations stall"
    what, sides = (
        ("peak memory", sentences.mebibytes(found))
        if name == "peak_memory"
        else ("CPU seconds of an iteration", f"{found.before:.4g} to {found.now:.4g} s")
    )
    return f"{what} grew by {sentences.percent(found.change or 0.0)} ({sides}; {_ends(found)})"


def _window(found: Comparison) -> str:
    return (
        f"work over the whole window is {sentences.change(found.change or 0.0)} "
        f"({amount(found.before or 0.0)} to {amount(found.now or 0.0)}; {_ends(found)})"
    )


def _ends(found: Comparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"90 % interval {sentences.signed(low)} to {sentences.signed(high)}"
