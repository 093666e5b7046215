"""Judges an interleaved A/B: a case measured in pairs of runs, one of each arm, no baseline."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case, Protocol
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metrics import gate_of
from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.scaling import stored_scaling
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import (
    convergence,
    gates,
    interleaved_sentences,
    metrics,
    refusals,
    scaling,
)
from pytest_dlperf.judge.compare import comparison_of, is_certainly_slower
from pytest_dlperf.judge.readings import by_faster_half
from pytest_dlperf.judge.screen import spending
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.levels import Contrast
from pytest_dlperf.judge.stats.paired import TOLERANCE, by_pairs, contrast_of, pairs_of
from pytest_dlperf.judge.stats.runs_needed import pairs_needed


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
    if not differs and (reason := _fault(case, now, before)):
        return _not_judged(Verdict.ERROR, reason, now)
    disturbed = _disturbed(now, before)
    is_other_work = _first(refusals.unchecked, now, before) or differs
    refused = disturbed or is_other_work
    if refused and not same_unit(now.unit, before.unit):
        return _not_judged(Verdict.INCOMPARABLE, refused, now)
    tolerance = next(
        given for given in (rule.tolerance, case.tolerance, TOLERANCE) if given is not None
    )
    prior = priors.of_pairs(case, rule)
    # Looks are planned as in ``more_runs``.
    looks = priors.of_throughput(case, rule)
    pairs = _Pairs(tolerance, rule, case.protocol, looks, len(now.runs), asked=len(case.metrics))
    by_median = _in_turns(now.runs, before.runs) or (_medians(now.runs), _medians(before.runs))
    rates = by_median if all(by_median) else (now.throughputs, before.throughputs)
    found, evidence = pairs.compare(*rates, prior, is_throughput=True)
    others = _metrics(pairs, case, now, before, prior)
    window = others.get("whole_window")
    asked = _asked(pairs, case, now, before)
    if refused:
        unknown = _not_judged(Verdict.INCOMPARABLE, refused, now, found)
        if is_other_work:
            return unknown
        return gates.with_certain(_with_memory(unknown, others), case, now, asked)
    unsteady = _unsteady(now, before)
    if unsteady and not _slower_by_all(pairs, case, (now, before), (found, window)):
        reason = f"{unsteady}; look at the records of the runs, and measure again"
        unknown = _with_memory(_not_judged(Verdict.UNSTEADY, reason, now, found), others)
        return gates.with_certain(unknown, case, now, asked)
    found = replace(found, runs_needed=_needed(found, window))
    takes = interleaved_sentences.what_it_takes(found, now.runs, before.runs, case.protocol)
    judged = Judgement(
        verdict=found.verdict or Verdict.INCONCLUSIVE,
        reason=interleaved_sentences.throughput(
            found,
            rule,
            now.unit,
            slower=is_certainly_slower(evidence, pairs.throughput_rule, pairs.spent),
            against=against,
            takes=takes,
            pairs=len(now.runs),
            by_median=all(by_median),
            in_turns=all(run.turns for run in (*now.runs, *before.runs)),
        ),
        throughput=found,
        metrics=others,
    )
    judged = _with_why(_with_metrics(judged), case, now, before)
    judged = gates.with_gates(judged, case, now, asked, is_paired=True)
    if judged.verdict in GOOD and window is not None and window.verdict is Verdict.INCONCLUSIVE:
        words = interleaved_sentences.window_is_open(window, takes)
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
        f"the arms were not measured under the same conditions ({', '.join(found)}: this arm's, "
        "then the other's), so they did not do the same work; compare arms that do"
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


def _unsteady(now: Measurement, before: Measurement) -> str:
    """Return why runs were not in one steady state; empty if they were.

    Arms in lock-step that both drift met the same machine, so their difference counts. One that
    drifts alone does so by itself.
    """
    codes = set(refusals.UNSTEADY)
    both_drift = all(any(p.code == "drift" for p in one.problems) for one in (now, before))
    if both_drift and all(run.turns for run in (*now.runs, *before.runs)):
        codes.discard("drift")
    return _message((now, before), codes)


def _disturbed(now: Measurement, before: Measurement) -> str:
    message = _message((now, before), refusals.DISTURBED)
    return message and f"{message}; measure again when the machine is quiet"


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


class _Pairs:
    """Compares values in pairs, all metrics by the same margins."""

    def __init__(
        self,
        tolerance: float,
        rule: Rule,
        protocol: Protocol,
        prior: Prior,
        count: int,
        *,
        asked: int = 0,
    ) -> None:
        self._tolerance = tolerance
        self.rule = rule
        self.throughput_rule = family.of_throughput(rule)
        self._asked = asked
        #: The error rates of this look, and those of the last look if more pairs followed.
        self.spent = spending(protocol, count, prior)
        more = max(protocol.max_runs, protocol.runs + 1, count + 1)
        self._last = spending(replace(protocol, max_runs=more), more, prior)

    def compare(
        self,
        now: Sequence[float],
        before: Sequence[float],
        prior: Prior,
        *,
        sign: int = 1,
        floor: float | None = None,
        is_throughput: bool = False,
        tolerance: float | None = None,
    ) -> tuple[Comparison, Contrast]:
        """Return the comparison of values in the order of pairs, and the contrast behind it."""
        rule = self.throughput_rule if is_throughput else family.of_other(self.rule, self._asked)
        sample = pairs_of(
            [sign * math.log(value) for value in now],
            [sign * math.log(value) for value in before],
        )
        found = contrast_of(sample, prior)
        allowed = self._tolerance if tolerance is None else tolerance
        compared = comparison_of(found, allowed, rule, self.spent, sign=sign, floor=floor)
        needed = None
        if compared.verdict is Verdict.INCONCLUSIVE:
            needed = pairs_needed(sample, prior, allowed, rule, self._last, sign=sign)
        return by_pairs(replace(compared, runs_needed=needed), before), found


def _slower_by_all(
    pairs: _Pairs,
    case: Case,
    arms: tuple[Measurement, Measurement],
    known: Sequence[Comparison | None],
) -> bool:
    """Whether even the faster half of each run is slower than all of the other arm's run."""
    now, before = arms
    faster = by_faster_half(now) if refusals.drifts(now) or refusals.drifts(before) else now
    if faster is None or any(
        one is not None and one.verdict is not Verdict.REGRESSED for one in known
    ):
        return False
    of_window = pairs.rule.prior or priors.PAIRS[case.layout.device]
    by_half, _ = pairs.compare(
        faster.throughputs, before.throughputs, of_window, is_throughput=True
    )
    return by_half.verdict is Verdict.REGRESSED


def _with_memory(refused: Judgement, others: Mapping[str, Comparison]) -> Judgement:
    """Fail a case whose peak memory certainly grew: drifting steps do not explain it."""
    memory = others.get("peak_memory")
    return (
        refused
        if memory is None
        else _with_metrics(replace(refused, metrics={"peak_memory": memory}))
    )


def _metrics(
    pairs: _Pairs, case: Case, now: Measurement, before: Measurement, prior: Prior
) -> dict[str, Comparison]:
    """Return the other gated metrics, where every run of both arms has them."""
    device = case.layout.device
    found: dict[str, Comparison] = {}
    if _medians(now.runs) and _medians(before.runs):
        of_window = pairs.rule.prior or priors.PAIRS[device]
        found["whole_window"], _ = pairs.compare(now.throughputs, before.throughputs, of_window)
    mine, theirs = (
        _cpu_seconds(case, now.runs),
        _cpu_seconds(case, before.runs),
    )
    if device == "cpu" and mine and theirs:
        found["cpu_seconds"], _ = pairs.compare(mine, theirs, priors.PAIRS[device], sign=-1)
    mine, theirs = _peaks(now.runs), _peaks(before.runs)
    if mine and theirs:
        found["peak_memory"], _ = pairs.compare(
            mine, theirs, priors.MEMORY[device], sign=-1, floor=metrics.MEMORY_FLOOR
        )
    return found


def _reported(case: Case, before: Measurement) -> Case:
    """Return ``case`` with the gates on what any run has: an older program may lack a metric."""
    known = {name for run in before.runs for name in run.metrics}
    return replace(case, metrics=tuple(one for one in case.metrics if one.name in known))


def _asked(
    pairs: _Pairs, case: Case, now: Measurement, before: Measurement
) -> dict[str, Comparison]:
    """Return the metrics that the marker gates, where every run of both arms has them.

    Raises ``CaseError`` for a metric that the other arm has, and the working tree has not.
    """
    found: dict[str, Comparison] = {}
    for gate in map(gate_of, case.metrics):
        mine, theirs = (gates.figures(gate, arm) for arm in (now, before))
        if theirs and not mine:
            raise CaseError(
                f"{case.id}: metric {gate.name} is gated, and only the runs of the other arm have "
                "it"
            )
        if not theirs:
            continue
        values = [one.value for one in mine], [one.value for one in theirs]
        if gate.is_count:
            found[gate.name] = gates.count(*values, mine[0])
            continue
        prior = priors.of_figure(mine[0].unit, case.layout.device)
        sign = 1 if mine[0].better == "higher" else -1
        found[gate.name], _ = pairs.compare(*values, prior, sign=sign, tolerance=gate.tolerance)
    return found


def _medians(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the rate of each run by its median iteration, which stalls hardly move.

    Empty where a run lacks it.
    """
    rates = tuple(run.estimates.get("median_step", 0.0) for run in runs)
    return rates if all(math.isfinite(rate) and rate > 0 for rate in rates) else ()


def _in_turns(
    now: Sequence[RunSummary], before: Sequence[RunSummary]
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the rates of runs in lock-step; None where a pair of runs took no turns.

    Those of ``before`` are by the median iteration. Those of ``now`` differ from them by the ratio
    of median iterations, of which the median over the pairs of turns is taken, as the turns of a
    pair follow each other and met the same neighbours; and by the ratio of the work of an
    iteration. A last turn of less than half the length of the others is left out.
    """
    mine_by_median, theirs = _medians(now), _medians(before)
    mine = []
    for run, other, of_run, rate in zip(now, before, mine_by_median, theirs, strict=False):
        if not run.turns or run.turns != other.turns:
            return None
        turns = [slice(*ends) for ends in pairwise((*run.turns, len(run.step_seconds)))]
        if len(turns) > 1 and 2 * _length(turns[-1]) < _length(turns[0]):
            turns.pop()
        ratios = [_median_s(other, turn) / _median_s(run, turn) for turn in turns]
        window = slice(run.turns[0], None)
        work = of_run * _median_s(run, window) / (rate * _median_s(other, window))
        mine.append(rate * work * statistics.median(ratios))
    return (tuple(mine), theirs) if mine else None


def _length(turn: slice) -> int:
    return int(turn.stop - turn.start)


def _median_s(run: RunSummary, iterations: slice) -> float:
    return statistics.median(run.step_seconds[iterations])


def _cpu_seconds(case: Case, runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the CPU seconds per iteration of all ranks together; empty where one is unknown."""
    first, end = case.protocol.window
    values = []
    for run in runs:
        known = [rank.cpu_seconds for rank in run.ranks if rank.cpu_seconds is not None]
        values.append(sum(known) / (end - first) if len(known) == len(run.ranks) else 0.0)
    return tuple(values) if all(value > 0 for value in values) else ()


def _peaks(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the peak memory of each run in bytes; empty where one is unknown."""
    values = tuple(float(run.peak_memory_bytes or 0) for run in runs)
    return values if min(values) > 0 else ()


def _with_metrics(judged: Judgement) -> Judgement:
    """Fail the case for a metric that is certainly worse, or say why it does not fail.

    More CPU seconds for a faster training are a trade-off, and do not fail the case.
    """
    worse = {name: m for name, m in judged.metrics.items() if m.verdict is Verdict.REGRESSED}
    cpu = worse.get("cpu_seconds")
    if cpu is not None and judged.verdict is Verdict.IMPROVED:
        reason = f"{judged.reason}; {interleaved_sentences.metric('cpu_seconds', cpu)}"
        judged = replace(judged, reason=reason)
        del worse["cpu_seconds"]
    if not worse:
        return judged
    words = "; ".join(interleaved_sentences.metric(name, found) for name, found in worse.items())
    if judged.verdict is Verdict.REGRESSED:
        return replace(judged, reason=f"{judged.reason}; {words}")
    reason = f"{words}; throughput: {judged.reason}"
    return replace(judged, verdict=Verdict.REGRESSED, reason=reason)
