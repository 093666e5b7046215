"""Compares the numbers of pairs of runs, one of each arm: throughput and all other metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metrics import gate_of
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import MEMORY_TOLERANCE, Comparison, Prior, Rule, Verdict
from pytest_dlperf.judge import gates, refusals
from pytest_dlperf.judge.compare import comparison_of
from pytest_dlperf.judge.comparisons import tolerance_of
from pytest_dlperf.judge.readings import by_half
from pytest_dlperf.judge.screen import spending
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import Contrast
from pytest_dlperf.judge.stats.paired import by_pairs, contrast_of, pairs_of
from pytest_dlperf.judge.stats.runs_needed import pairs_needed


class ComparedRates(NamedTuple):
    """The throughput of pairs."""

    found: Comparison
    contrast: Contrast
    #: Whether rates are those of the median iteration; else of work over time.
    by_median: bool


def took_turns(now: Measurement, before: Measurement) -> bool:
    """Whether all runs of both arms were in lock-step."""
    return all(run.turns for run in (*now.runs, *before.runs))


class Pairs:
    """Run i of ``now`` and run i of ``before`` are a pair; all metrics have the same margins."""

    def __init__(self, case: Case, now: Measurement, before: Measurement, rule: Rule) -> None:
        self._case, self._now, self._before, self._rule = case, now, before, rule
        self._device = case.layout.device
        self._in_turns = took_turns(now, before)
        self._tolerance = tolerance_of(case, None, rule)
        self.throughput_rule = family.of_throughput(rule)
        count, protocol = len(now.runs), case.protocol
        #: The error rates of this look, and those of the last look if more pairs followed.
        self.spent = spending(protocol, count, in_pairs=True)
        more = max(protocol.max_runs, protocol.runs + 1, count + 1)
        self._last = spending(replace(protocol, max_runs=more), more, in_pairs=True)

    def throughput(self) -> ComparedRates:
        """Return the comparison of the rates, by the median iteration where all runs have it."""
        now, before = self._now, self._before
        medians = (_medians(now.runs), _medians(before.runs))
        by_median = rates_in_turns(now.runs, before.runs) or medians
        rates = by_median if all(by_median) else (now.throughputs, before.throughputs)
        prior = priors.PAIRS[self._device]
        return ComparedRates(*self._compare(rates, prior, self.throughput_rule), all(by_median))

    def metrics(self) -> dict[str, Comparison]:
        """Return the metrics of every case, where all runs of both arms have them."""
        now, before, device = self._now, self._before, self._device
        found: dict[str, Comparison] = {}
        if _medians(now.runs) and _medians(before.runs):
            rates = (now.throughputs, before.throughputs)
            found["whole_window"], _ = self._compare(rates, priors.PAIRS[device])
        mine, theirs = _cpu_seconds(self._case, now.runs), _cpu_seconds(self._case, before.runs)
        if device == "cpu" and mine and theirs:
            found["cpu_seconds"], _ = self._compare((mine, theirs), priors.PAIRS[device], sign=-1)
        mine, theirs = _peaks(now.runs), _peaks(before.runs)
        if mine and theirs:
            rule = family.of_memory(self._rule, len(self._case.metrics))
            found["peak_memory"], _ = self._compare(
                (mine, theirs), priors.MEMORY[device], rule, sign=-1, tolerance=MEMORY_TOLERANCE
            )
        return found

    def gated(self) -> dict[str, Comparison]:
        """Return the metrics that the marker gates, where every run of both arms has them.

        Raises ``CaseError`` for a metric that the other arm has, and the working tree has not.
        """
        found: dict[str, Comparison] = {}
        for gate in map(gate_of, self._case.metrics):
            mine, theirs = (gates.figures(gate, arm) for arm in (self._now, self._before))
            if theirs and not mine:
                raise CaseError(
                    f"{self._case.id}: metric {gate.name} is gated, and only the runs of the "
                    "other arm have it"
                )
            if not theirs:
                continue
            values = [one.value for one in mine], [one.value for one in theirs]
            if gate.is_count:
                found[gate.name] = gates.count(*values, mine[0])
                continue
            prior = priors.of_figure(mine[0].unit, self._device)
            sign = 1 if mine[0].better == "higher" else -1
            tolerance = gates.tolerance_of(gate, mine[0].unit)
            found[gate.name], _ = self._compare(values, prior, sign=sign, tolerance=tolerance)
        return found

    def slower_by_all(self, known: Sequence[Comparison | None]) -> bool:
        """Whether even the faster half of each run is slower than all of the other arm's run.

        And ``known``, the comparisons by whole runs, regressed as well. Where only this arm drifts
        in lock-step, the other one shows that the code did it, and whole runs are enough.
        """
        now, before = self._now, self._before
        may_be_machine = refusals.drifts(before) or (not self._in_turns and refusals.drifts(now))
        faster = by_half(now, min) if may_be_machine else now
        if faster is None or any(
            one is not None and one.verdict is not Verdict.REGRESSED for one in known
        ):
            return False
        found, _ = self._compare(
            (faster.throughputs, before.throughputs),
            priors.PAIRS[self._device],
            self.throughput_rule,
        )
        return found.verdict is Verdict.REGRESSED

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
        rule = rule or family.of_other(self._rule, len(self._case.metrics))
        sample = pairs_of(
            [sign * math.log(value) for value in now],
            [sign * math.log(value) for value in before],
        )
        found = contrast_of(sample, prior)
        allowed = self._tolerance if tolerance is None else tolerance
        compared = comparison_of(found, allowed, rule, self.spent, sign=sign)
        needed = None
        if compared.verdict is Verdict.INCONCLUSIVE:
            needed = pairs_needed(sample, prior, allowed, rule, self._last, sign=sign)
        return by_pairs(replace(compared, runs_needed=needed), before), found


def _medians(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the rate of each run by its median iteration, which stalls hardly move.

    Empty where a run lacks it.
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
