"""Puts suites before rules, and tallies what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np
from verdict_rules import load, ours

from verdict_study.data import CASES
from verdict_study.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from verdict_rules.peer import PeerRule, Seconds

    from verdict_study.data import CaseData, DataSet

STORED: Final = "pytest-dlperf, stored"
INTERLEAVED: Final = "pytest-dlperf, interleaved"
#: How a peer is used: as its users do, or with as many runs as ours took on average.
USUAL, EQUAL_STORED, EQUAL_INTERLEAVED = "usual", "equal cost", "side by side, equal cost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Margins:
    """What our rule is asked for; shares of 1."""

    tolerance: float
    min_effect: float
    alpha: float


class Supply:
    """Hands out what is there, in order; raises ``RuntimeError`` when a rule wants more."""

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def draw(self, count: int) -> list[object]:
        """Return the next values."""
        if count > len(self._values):
            raise RuntimeError(f"a rule wants {count} more runs, and {len(self._values)} are left")
        drawn, self._values = self._values[:count], self._values[count:]
        return drawn


def suites(data: DataSet, seed: int, which: range) -> Iterator[tuple[CaseData, ...]]:
    """Return suites by their numbers: each is the same whoever asks, in whatever order."""
    for index in which:
        yield data.suite(np.random.default_rng([seed, crc32(data.name.encode()), index]))


def try_ours(
    data: DataSet, margins: Margins, seed: int, which: range, slowed: int
) -> dict[tuple[str, str], Tally]:
    """Return what our two rules say; of suites from number ``slowed`` on, unchanged ones alone."""
    against_stored, interleaved = Tally(), Tally()
    for index, suite in zip(which, suites(data, seed, which), strict=True):
        histories = [[ours.rates(session) for session in case.history] for case in suite]
        asked = {
            "family": CASES,
            "tolerance": margins.tolerance,
            "min_effect": margins.min_effect,
            "alpha": margins.alpha,
            "prior": ours.learnt(histories),
        }
        for truth in data.truths if index < slowed else data.truths[:1]:
            found = [
                ours.stored(history, Supply(ours.rates(case.now[truth])).draw, **asked)
                for case, history in zip(suite, histories, strict=True)
            ]
            against_stored.add_suite(truth, found)
            found = [ours.interleaved(Supply(_pairs(case, truth)).draw, **asked) for case in suite]
            found = [(verdict, 2 * pairs) for verdict, pairs in found]
            interleaved.add_suite(truth, found)
    return {(STORED, STORED): against_stored, (INTERLEAVED, INTERLEAVED): interleaved}


def _pairs(case: CaseData, truth: float) -> list[tuple[float, float]]:
    sides = (ours.rates(case.before[truth]), ours.rates(case.after[truth]))
    return list(zip(*sides, strict=True))


def try_peers(
    data: DataSet, costs: Mapping[str, int], seed: int, which: range
) -> dict[tuple[str, str], Tally]:
    """Return what peers say, by rule and by how they are used.

    ``costs`` are the runs a side at equal cost, by use. Peers know two results: the stored side
    is the last session, and the ones before it where more runs are asked for than it has.
    """
    rules = [rule for rule in load()[0] if data.has_iterations or rule.level == "run"]
    tallies: dict[tuple[str, str], Tally] = {}
    for suite in suites(data, seed, which):
        for truth in data.truths:
            for rule in rules:
                for use, sides, launched in _uses(rule, costs, truth):
                    found = [
                        ("regressed" if rule.regressed(*sides(case)) else "passed", launched)
                        for case in suite
                    ]
                    tallies.setdefault((rule.name, use), Tally()).add_suite(truth, found)
    return tallies


def _uses(
    rule: PeerRule, costs: Mapping[str, int], truth: float
) -> Iterator[tuple[str, Callable[[CaseData], tuple[Seconds, Seconds]], int]]:
    def against_stored(runs: int) -> Callable[[CaseData], tuple[Seconds, Seconds]]:
        def sides(case: CaseData) -> tuple[Seconds, Seconds]:
            kept = np.concatenate(case.history[::-1])[:runs]
            # As many on both sides: pyperf calls every other comparison significant.
            return kept, case.now[truth][: len(kept)]

        return sides

    def side_by_side(runs: int) -> Callable[[CaseData], tuple[Seconds, Seconds]]:
        return lambda case: (case.before[truth][:runs], case.after[truth][:runs])

    yield USUAL, against_stored(rule.usual_runs), rule.usual_runs
    runs = costs[EQUAL_STORED]
    yield EQUAL_STORED, against_stored(runs), runs
    runs = costs[EQUAL_INTERLEAVED]
    yield EQUAL_INTERLEAVED, side_by_side(runs), 2 * runs
