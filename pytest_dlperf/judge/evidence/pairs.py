"""Pairs of runs, one of each arm: run i of now and run i of the other arm."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metrics import gate_of
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.run import RunSummary, stored_scaling
from pytest_dlperf.core.verdict import MEMORY_TOLERANCE, Comparison, Prior, Rule, Verdict
from pytest_dlperf.judge.compare import comparison_of
from pytest_dlperf.judge.drift import drifts, faster_halves, in_halves, without_drift_of_machine
from pytest_dlperf.judge.evidence import Evidence, Kind, loss_of
from pytest_dlperf.judge.gates import check_gates, figures
from pytest_dlperf.judge.metrics import CaseMetric, count_comparison, tolerance_of_gate
from pytest_dlperf.judge.problem_codes import UNSTEADY
from pytest_dlperf.judge.scaling import why
from pytest_dlperf.judge.screen import spending
from pytest_dlperf.judge.sides import check_rates
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import Contrast
from pytest_dlperf.judge.stats.paired import contrast_of, pairs_of, with_shown_rates
from pytest_dlperf.judge.stats.runs_needed import pairs_needed
from pytest_dlperf.judge.tolerance import tolerance_of


def evidence_of_pairs(
    case: Case,
    now: Measurement,
    before: Measurement,
    rule: Rule,
    *,
    varied: Collection[str] = (),
    against: str = "the other arm",
) -> Evidence:
    """Return both arms of a case; run i of ``now`` and run i of ``before`` are a pair.

    ``varied`` are the conditions that the arms differ in on purpose; ``against`` names the arm of
    ``before``. Raises ``CaseError`` for rates that are not positive finite numbers, for runs
    without a pair, and for a gated metric that the working tree lacks.
    """
    _check(case, now, before)
    in_turns = took_turns(now, before)
    differences = _differences(now, before, varied)
    if in_turns:
        # Arms that drift alike met the same machine, so that their difference counts
        now, before = map(without_drift_of_machine, (now, before))
    evidence = Evidence(
        kind=Kind.PAIRS,
        rule=rule,
        unit=now.unit,
        throughput=now.throughput,
        against=against,
        than=against,
        spent=spending(case.protocol, len(now.runs), in_pairs=True),
        case=case,
        now=now,
        loss=loss_of(case, now, (run.loss_fall for run in before.runs), "the other arm's"),
        differences=differences,
        problems=(now.problems, before.problems),
        lacking=_lacking(case, now, before),
    )
    if differences and not same_unit(now.unit, before.unit):
        return evidence
    return _Pairs(evidence, case, now, before).compared()


def _check(case: Case, now: Measurement, before: Measurement) -> None:
    if len(now.runs) != len(before.runs) or not now.runs:
        raise CaseError(
            f"{now.case_id}: {len(now.runs)} runs and {len(before.runs)} of the other arm do not "
            "form pairs, so there is nothing to judge"
        )
    check_rates(now.throughputs, f"{now.case_id}, a run")
    check_rates(before.throughputs, f"{now.case_id}, a run of the other arm")
    check_gates(case, now, ())
    # An older program may lack a metric
    names = {name for run in before.runs for name in run.metrics}
    reported = tuple(gate for gate in case.metrics if gate.name in names)
    check_gates(replace(case, metrics=reported), before, ())
    for gate in case.metrics:
        if figures(gate, before) and not figures(gate, now):
            raise CaseError(
                f"{case.id}: metric {gate.name} is gated, and only the runs of the other arm have "
                "it"
            )


def took_turns(now: Measurement, before: Measurement) -> bool:
    """Return whether all runs of both arms were in lock-step."""
    return all(run.turns for run in (*now.runs, *before.runs))


def _differences(
    now: Measurement, before: Measurement, varied: Collection[str]
) -> tuple[str, ...]:
    kept = {name: getattr(now.conditions, name) for name in varied}
    return now.conditions.differences(replace(before.conditions, **kept))


def _lacking(case: Case, now: Measurement, before: Measurement) -> Mapping[str, str]:
    return {
        gate.name: "before" if figures(gate, now) else "now"
        for gate in case.metrics
        if not figures(gate, before)
    }


class _Pairs:
    """The comparisons of pairs; all metrics have the same error rates."""

    def __init__(
        self, evidence: Evidence, case: Case, now: Measurement, before: Measurement
    ) -> None:
        self._evidence, self._case, self._now, self._before = evidence, case, now, before
        self._rule, self._device = evidence.rule, case.layout.device
        self._tolerance = tolerance_of(case, None, evidence.rule)
        count, protocol = len(now.runs), case.protocol
        # The error rates of the last look if more pairs followed
        most = max(protocol.max_runs, protocol.runs + 1, count + 1)
        self._last = spending(replace(protocol, max_runs=most), most, in_pairs=True)

    def compared(self) -> Evidence:
        """Return the evidence with the comparison of every metric that both arms have."""
        now, before, case = self._now, self._before, self._case
        by_median = rates_in_turns(now.runs, before.runs)
        if by_median is None and not any(r.waits_for_data for r in (*now.runs, *before.runs)):
            medians = (_medians(now.runs), _medians(before.runs))
            by_median = medians if all(medians) else None
        rates = by_median or (now.throughputs, before.throughputs)
        rate, contrast = self._compare(
            rates, priors.PAIRS[self._device], family.throughput_rule(self._rule)
        )
        every_case = self._every_case(is_by_median=by_median is not None)
        window = every_case.get("whole_window")
        rate = replace(rate, runs_needed=_needed(rate, window))
        unsteady = bool(self._evidence.problem_text(UNSTEADY))
        return replace(
            self._evidence,
            comparisons={"throughput": rate, **every_case, **self._gated()},
            metrics=self._metrics(),
            contrast=contrast,
            is_slower_anyway=unsteady and self._is_slower_by_all(rate, window),
            why_devices_wait=self._why(),
            figures={
                "by_median": by_median is not None,
                "in_turns": took_turns(now, before),
                "runs": len(now.runs),
                "run_s": sum(
                    statistics.median(run.elapsed_s for run in side.runs) for side in (now, before)
                ),
                "adaptive": case.protocol.adaptive,
            },
        )

    def _why(self) -> str:
        """Return what makes devices wait, of a training on several of them.

        The arms are not measured on one device, so whether speedup fell is unknown.
        """
        if self._case.world_size < 2:
            return ""
        stored = [stored_scaling(self._before.runs, self._device)]
        return why(self._now.runs, stored, self._device)

    def _every_case(self, *, is_by_median: bool) -> dict[str, Comparison]:
        """Return the metrics of every case, where all runs of both arms have them.

        The whole window is one of them where the throughput is that of the median iteration.
        """
        now, before, device = self._now, self._before, self._device
        compared: dict[str, Comparison] = {}
        prior = priors.PAIRS[device]
        if is_by_median:
            rates = (now.throughputs, before.throughputs)
            compared["whole_window"], _ = self._compare(rates, prior)
        values_now, values_before = (
            _cpu_seconds(self._case, now.runs),
            _cpu_seconds(self._case, before.runs),
        )
        if device == "cpu" and values_now and values_before:
            compared["cpu_seconds"], _ = self._compare((values_now, values_before), prior, sign=-1)
        values_now, values_before = _peaks(now.runs), _peaks(before.runs)
        if values_now and values_before:
            rule = family.memory_rule(self._rule, len(self._case.metrics))
            compared["peak_memory"], _ = self._compare(
                (values_now, values_before),
                priors.MEMORY[device],
                rule,
                sign=-1,
                tolerance=MEMORY_TOLERANCE,
            )
        return compared

    def _metrics(self) -> Mapping[str, CaseMetric]:
        """Return the metrics of the marker that the arm of now has."""
        return {
            gate.name: CaseMetric(
                name=gate.name,
                value_in=lambda _session: None,
                prior=priors.prior_of_figure(values[0].unit, self._device),
                is_count=gate.is_count is True,
                unit=values[0].unit,
                is_gate=True,
                gates=len(self._case.metrics),
            )
            for gate in map(gate_of, self._case.metrics)
            if (values := figures(gate, self._now))
        }

    def _gated(self) -> dict[str, Comparison]:
        """Return the metrics that the marker gates, where every run of both arms has them."""
        compared: dict[str, Comparison] = {}
        for gate in map(gate_of, self._case.metrics):
            figures_now, figures_before = (figures(gate, arm) for arm in (self._now, self._before))
            if not figures_before:
                continue
            values = (
                [figure.value for figure in figures_now],
                [figure.value for figure in figures_before],
            )
            if gate.is_count:
                compared[gate.name] = count_comparison(*values, figures_now[0].better)
                continue
            prior = priors.prior_of_figure(figures_now[0].unit, self._device)
            sign = 1 if figures_now[0].better == "higher" else -1
            tolerance = tolerance_of_gate(gate, figures_now[0].unit)
            compared[gate.name], _ = self._compare(values, prior, sign=sign, tolerance=tolerance)
        return compared

    def _is_slower_by_all(self, *by_whole_runs: Comparison | None) -> bool:
        """Return whether this arm is slower by any part of its runs that may be the case's own.

        By ``by_whole_runs``, the comparisons of whole runs, and by what no drift of the machine
        explains. In lock-step both arms met the same machine in each half of the window, so that
        both halves have to be slower. Runs that alternate have their faster half compared with
        all of the other arm's. Where only this arm drifts in lock-step, the other one shows that
        the code did it, and whole runs are enough.
        """
        now, before = self._now, self._before
        if any(
            comparison is not None and comparison.verdict is not Verdict.REGRESSED
            for comparison in by_whole_runs
        ):
            return False
        if took_turns(now, before):
            if not drifts(before):
                return True
            halves = list(zip(in_halves(now), in_halves(before), strict=True))
            return bool(halves) and all(self._is_slower(*half) for half in halves)
        faster = faster_halves(now) if drifts(now) or drifts(before) else now
        return faster is not None and self._is_slower(faster, before)

    def _is_slower(self, now: Measurement, before: Measurement) -> bool:
        """Return whether the rates of ``now`` are certainly lower."""
        compared, _ = self._compare(
            (now.throughputs, before.throughputs),
            priors.PAIRS[self._device],
            family.throughput_rule(self._rule),
        )
        return compared.verdict is Verdict.REGRESSED

    def _compare(
        self,
        arms: tuple[Sequence[float], Sequence[float]],
        prior: Prior,
        rule: Rule | None = None,
        *,
        sign: int = 1,
        tolerance: float | None = None,
    ) -> tuple[Comparison, Contrast]:
        """Return the comparison of values in the order of pairs, and the contrast behind it.

        ``arms`` has the values of now and of before. Without a ``rule`` it is that of a metric
        beside the throughput.
        """
        now, before = arms
        spent = self._evidence.spent
        rule = rule or family.metric_rule(self._rule, len(self._case.metrics))
        pairs = pairs_of(
            [sign * math.log(value) for value in now],
            [sign * math.log(value) for value in before],
        )
        contrast = contrast_of(pairs, prior)
        allowed = self._tolerance if tolerance is None else tolerance
        compared = comparison_of(contrast, allowed, rule, spent, sign=sign)
        needed = None
        if compared.verdict is Verdict.INCONCLUSIVE:
            needed = pairs_needed(pairs, prior, allowed, rule, self._last, sign=sign)
        return with_shown_rates(replace(compared, runs_needed=needed), before), contrast


def _needed(rate: Comparison, window: Comparison | None) -> int | None:
    """Return how many pairs would decide what is open; None where no number would, or nothing is.

    A case passes only if both its median iteration and the whole window are certified.
    """
    needed = [
        comparison.runs_needed
        for comparison in (rate, window)
        if comparison is not None and comparison.verdict is Verdict.INCONCLUSIVE
    ]
    known = [count for count in needed if count is not None]
    return max(known) if known and len(known) == len(needed) else None


def _medians(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the rate of each run by its median iteration, which stalls hardly move.

    Empty where a run lacks it. Of steps that wait for data no iteration is the median.
    """
    rates = tuple(run.estimates.get("median_step", 0.0) for run in runs)
    return rates if all(math.isfinite(rate) and rate > 0 for rate in rates) else ()


def rates_in_turns(
    now: Sequence[RunSummary], before: Sequence[RunSummary]
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the rates of runs in lock-step; None where a pair of runs took no turns.

    Those of ``before`` are by the median iteration. Those of ``now`` differ from them by the ratio
    of median iterations, of which the median over the pairs of turns is taken, as the turns of a
    pair follow each other and met the same neighbours; and by the ratio of the work of an
    iteration. Where steps wait for data, it is the ratio of mean iterations: processes that make
    it serve them in bursts, of which no iteration is the median. Turns by time have other numbers
    of iterations in each run. A last turn of less than half the length of the others is left out.
    """
    now_by_median, before_by_median = _medians(now), _medians(before)
    rates_now = []
    for run, run_before, own_rate, rate in zip(
        now, before, now_by_median, before_by_median, strict=False
    ):
        if not run.turns or len(run.turns) != len(run_before.turns):
            return None
        turns = list(zip(_turns(run), _turns(run_before), strict=True))
        ends = zip(turns[0], turns[-1], strict=True)
        if len(turns) > 1 and any(2 * _length(last) < _length(first) for first, last in ends):
            turns.pop()
        waits = run.waits_for_data or run_before.waits_for_data
        typical_s = _mean_s if waits else _median_s
        ratios = [
            typical_s(run_before, turn_before) / typical_s(run, turn)
            for turn, turn_before in turns
        ]
        work = own_rate * _window_s(run) / (rate * _window_s(run_before))
        rates_now.append(rate * work * statistics.median(ratios))
    return (tuple(rates_now), before_by_median) if rates_now else None


def _turns(run: RunSummary) -> list[slice]:
    """Return the iterations of each turn."""
    return [slice(*ends) for ends in pairwise((*run.turns, len(run.step_seconds)))]


def _window_s(run: RunSummary) -> float:
    """Return the seconds of the median iteration of all turns."""
    return _median_s(run, slice(run.turns[0], None))


def _length(turn: slice) -> int:
    return int(turn.stop - turn.start)


def _median_s(run: RunSummary, iterations: slice) -> float:
    return statistics.median(run.step_seconds[iterations])


def _mean_s(run: RunSummary, iterations: slice) -> float:
    return statistics.fmean(run.step_seconds[iterations])


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
