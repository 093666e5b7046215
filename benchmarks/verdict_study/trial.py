"""Puts suites before rules, and tallies what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

import numpy as np

from pytest_dlperf.core.verdict import Rule
from verdict_rules import load, ours
from verdict_study.data import CASES
from verdict_study.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from verdict_rules.peer import PeerRule
    from verdict_study.data import CaseData, DataSet

Value = TypeVar("Value")

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


def supply(values: Sequence[Value]) -> Callable[[int], list[Value]]:
    """Return what hands out the values in order; raises ``RuntimeError`` where few are left."""
    left = list(values)

    def draw(count: int) -> list[Value]:
        if count > len(left):
            raise RuntimeError(f"a rule wants {count} more runs, and {len(left)} are left")
        drawn = left[:count]
        del left[:count]
        return drawn

    return draw


def suites(data: DataSet, seed: int, which: range) -> Iterator[tuple[CaseData, ...]]:
    """Return suites by their numbers: each is the same whoever asks, in whatever order."""
    for index in which:
        yield data.suite(np.random.default_rng([seed, crc32(data.name.encode()), index]))


def try_ours(
    data: DataSet, margins: Margins, seed: int, which: range, slowed: int
) -> dict[tuple[str, str], Tally]:
    """Return what our two rules say; of suites from number ``slowed`` on, unchanged ones alone."""
    stored, interleaved = Tally(), Tally()
    for index, suite in zip(which, suites(data, seed, which), strict=True):
        rule = Rule(
            family=CASES,
            tolerance=margins.tolerance,
            min_effect=margins.min_effect,
            alpha=margins.alpha,
        )
        for truth in data.truths if index < slowed else data.truths[:1]:
            verdicts = [
                ours.stored(
                    [ours.runs(session) for session in case.history],
                    supply(ours.runs(case.now[truth])),
                    rule=rule,
                    device=data.device,
                )
                for case in suite
            ]
            stored.add_suite(truth, verdicts)
            pairs = [
                ours.interleaved(supply(_pairs(case, truth)), rule=rule, device=data.device)
                for case in suite
            ]
            interleaved.add_suite(truth, [(verdict, 2 * count) for verdict, count in pairs])
    return {(STORED, STORED): stored, (INTERLEAVED, INTERLEAVED): interleaved}


def _pairs(case: CaseData, truth: float) -> list[tuple[ours.Run, ours.Run]]:
    sides = (ours.runs(case.before[truth]), ours.runs(case.after[truth]))
    return list(zip(*sides, strict=True))


def try_peers(
    data: DataSet, costs: Mapping[str, int], seed: int, which: range
) -> dict[tuple[str, str], Tally]:
    """Return what peers say, by rule and by how they are used.

    ``costs`` are the runs a side at equal cost, by use. Peers compare two results: the stored one
    is the last session, and the ones before it where more runs are asked for than it has.
    """
    rules = [rule for rule in load()[0] if data.has_iterations or rule.level == "run"]
    tallies: dict[tuple[str, str], Tally] = {}
    for suite in suites(data, seed, which):
        for truth in data.truths:
            for rule in rules:
                for use in (USUAL, EQUAL_STORED, EQUAL_INTERLEAVED):
                    runs = costs.get(use, rule.usual_runs)
                    verdicts = [_peer_verdict(rule, case, truth, use, runs) for case in suite]
                    tallies.setdefault((rule.name, use), Tally()).add_suite(truth, verdicts)
    return tallies


def _peer_verdict(
    rule: PeerRule, case: CaseData, truth: float, use: str, runs: int
) -> tuple[str, float]:
    """Return the verdict, and the runs that were launched for it."""
    if use == EQUAL_INTERLEAVED:
        before, now = case.before[truth][:runs], case.after[truth][:runs]
        launched = 2 * len(now)
    else:
        before = np.concatenate(case.history[::-1])[:runs]
        # As many on both sides: pyperf calls every other comparison significant.
        now = case.now[truth][: len(before)]
        launched = len(now)
    return "regressed" if rule.regressed(before, now) else "passed", launched
