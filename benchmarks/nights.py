"""Nights through the judge: steps and creeps, what finds them, and what unchanged code costs.

Each night measures a case, judges it by its stored sessions and, where these leave it open or seem
to have left their anchor, in pairs, and stores it by the rules of ``--update-baselines``.
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Environment, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge.creep import case_of_pairs
from pytest_dlperf.judge.two_stages import (
    decided_by_pairs,
    other_sides,
)
from pytest_dlperf.judge.verdict import judge
from pytest_dlperf.store.baseline import update
from verdict_rules import ours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.layout import DeviceKind

#: Runs of a session that is stored before the first night.
_RUNS: Final = 5
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
_ENVIRONMENT: Final = Environment(
    machine_class="any", hardware="any", node="n1", software={}, machine={}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The noise of a case, and what is stored of it; shares are of 1."""

    device: DeviceKind
    #: Standard deviations of logs: between the runs of a session, and between sessions.
    run_sd: float
    session_sd: float
    #: Of the difference of a pair of runs; None where no pair is possible.
    pair_sd: float | None
    #: Sessions that are stored before the first night.
    stored: int
    tolerance: float | None = None
    #: Cases of the suite.
    family: int = 10

    @property
    def name(self) -> str:
        """The world in words."""
        pairs = "no pairs" if self.pair_sd is None else f"pairs {self.pair_sd:.1%}"
        return (
            f"{self.device}, runs {self.run_sd:.1%}, sessions {self.session_sd:.1%}, {pairs}, "
            f"{self.stored} stored"
        )

    @property
    def case(self) -> Case:
        """A case of this world."""
        return ours.case_of(self.device)

    @property
    def rule(self) -> Rule:
        """The rule of its sessions."""
        return Rule(tolerance=self.tolerance, family=self.family)


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """What one night said."""

    verdict: Verdict
    #: Pairs that were measured, and whether with the code of the anchor.
    pairs: int
    with_anchor: bool
    #: ``created``, ``appended``, ``replaced``, ``refused``.
    update: str


class Nights:
    """A case whose code changes night after night, on one machine."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._world, self._rng = world, rng
        self._rule, self._case = world.rule, world.case
        #: Logs of the true rate, by the commit that has it.
        self._truth: dict[str, float] = {}
        self.baseline: Baseline | None = None
        for _ in range(world.stored):
            outcome = self._outcome(self._runs(0.0, _RUNS), _SHOWN, 0.0)
            self.baseline, _ = update.apply(self.baseline, outcome, reason="", today="")

    def night(self, truth: float) -> Night:
        """Measure code whose log rate is ``truth``, judge it and store it."""
        rule = self._rule
        case = replace(self._case, protocol=self._case.protocol.screening)
        rates = self._runs(truth, case.protocol.max_runs)
        stored, count = ours.decided(
            case, lambda count: judge(case, _measurement(rates[:count]), self.baseline, rule)
        )
        now = _measurement(rates[:count])
        judged, pairs, with_anchor = stored, 0, False
        sides = other_sides(case, now, stored, self.baseline, rule)
        if sides and self._world.pair_sd is not None:
            assert self.baseline is not None
            with_anchor = sides[0] is not self.baseline.level[-1]
            paired, pairs = self._pairs(truth, sides[0], rule, with_anchor=with_anchor)
            judged = decided_by_pairs(stored, paired, against=sides[0].commit, environment=())
        return Night(
            verdict=judged.verdict,
            pairs=pairs,
            with_anchor=with_anchor,
            update=self._store(self._outcome(rates[:count], judged, truth)),
        )

    def _pairs(
        self, truth: float, stored: Session, rule: Rule, *, with_anchor: bool
    ) -> tuple[Judgement, int]:
        """Return the judgement by pairs with the code of a stored session, and their number."""
        assert self._world.pair_sd is not None
        difference = truth - self._truth[stored.commit]
        case = case_of_pairs(self._case) if with_anchor else self._case
        noise = self._world.pair_sd * self._rng.standard_normal(case.protocol.max_runs)
        after, before = 100 * np.exp(difference + noise), np.full(len(noise), 100.0)

        def arms(count: int) -> tuple[Measurement, Measurement]:
            now, then = (_measurement(side[:count].tolist()) for side in (after, before))
            return now, then

        return ours.second_stage(self._case, arms, rule, with_anchor=with_anchor)

    def _runs(self, truth: float, count: int) -> list[float]:
        session = self._world.session_sd * self._rng.standard_normal()
        runs = self._world.run_sd * self._rng.standard_normal(count)
        rates: list[float] = (100 * np.exp(truth + session + runs)).tolist()
        return rates

    def _outcome(self, rates: Sequence[float], judged: Judgement, truth: float) -> Outcome:
        commit = f"{len(self._truth):07x}"
        self._truth[commit] = truth
        time = _BEGIN + timedelta(days=len(self._truth))
        return Outcome(
            case=self._case, judgement=judged, measurement=_measurement(rates),
            environment=_ENVIRONMENT, time=time.strftime("%Y-%m-%dT%H:%M:%SZ"), commit=commit,
        )  # fmt: skip

    def _store(self, outcome: Outcome) -> str:
        window = self._case.protocol.window
        if update.refusal(outcome, reason="", dirty=False, protocol_window=window):
            return "refused"
        self.baseline, what = update.apply(self.baseline, outcome, reason="", today=outcome.time)
        return what


_SHOWN: Final = Judgement(verdict=Verdict.PASSED, reason="")


def _measurement(rates: Sequence[float]) -> Measurement:
    summary = RunSummary(
        throughput=1.0, estimates={}, step_seconds=(), ranks=(), peak_memory_bytes=None,
        time_to_first_step_s=1.0, canary={}, others_cpu_share=None,
    )  # fmt: skip
    runs = tuple(replace(summary, throughput=float(rate)) for rate in rates)
    return Measurement(case_id="case", unit="iterations", conditions=ours.CONDITIONS, runs=runs)


def step(world: World, slower: float, tries: int, seed: int) -> list[Night]:
    """Return the first night of code that is ``slower`` by a share, once a try."""
    rng = np.random.default_rng(seed)
    return [Nights(world, rng).night(math.log1p(-slower)) for _ in range(tries)]


def creep(world: World, slower: float, tries: int, seed: int, most: int = 30) -> list[int | None]:
    """Return the night that finds code which becomes ``slower`` each night, once a try.

    None where ``most`` nights do not find it.
    """
    rng = np.random.default_rng(seed)
    first_red: list[int | None] = []
    for _ in range(tries):
        nights = Nights(world, rng)
        verdicts = (
            nights.night(number * math.log1p(-slower)).verdict for number in range(1, most + 1)
        )
        first_red.append(
            next(
                (n for n, verdict in enumerate(verdicts, 1) if verdict is Verdict.REGRESSED), None
            )
        )
    return first_red


def unchanged(world: World, tries: int, seed: int, count: int = 30) -> list[list[Night]]:
    """Return ``count`` nights of code that becomes no slower, once a try."""
    rng = np.random.default_rng(seed)
    made = (Nights(world, rng) for _ in range(tries))
    return [[nights.night(0.0) for _ in range(count)] for nights in made]


_NOISE: Final[tuple[tuple[DeviceKind, float, float], ...]] = (
    ("gpu", 0.005, 0.005), ("gpu", 0.01, 0.01), ("gpu", 0.005, 0.03), ("cpu", 0.04, 0.03),
)  # fmt: skip


def worlds() -> list[World]:
    """Return the worlds of the table."""
    return [
        World(device=device, run_sd=run, session_sd=session, pair_sd=pair, stored=stored)
        for device, run, session in _NOISE
        for pair in (0.013, 0.02, None)
        for stored in (1, 10)
    ]


def row(world: World, tries: int, seed: int) -> str:
    """Return the figures of one world as a row of the table."""
    first = step(world, 0.05, tries, seed)
    red = sum(night.verdict is Verdict.REGRESSED for night in first)
    passed = sum(night.verdict is Verdict.PASSED for night in first)
    slower = 0.005
    first_red = sorted(night or 99 for night in creep(world, slower, tries, seed + 1))
    drifts = [100 * (1 - (1 - slower) ** night) for night in first_red]
    by_3 = sum(round(drift, 1) <= 3.0 for drift in drifts) / tries
    quantiles = [drifts[round(share * (tries - 1))] for share in (0.1, 0.5, 0.9)]
    flat = [night for nights in unchanged(world, tries // 4, seed + 2) for night in nights]
    count = len(flat) / 30
    cells = (
        world.name,
        f"{red / tries:.0%} ({passed / tries:.0%} passed)",
        f"{quantiles[1]:.1f} % ({quantiles[0]:.1f} to {quantiles[2]:.1f}; {by_3:.0%})",
        f"{sum(night.verdict is Verdict.REGRESSED for night in flat) / count:.2f}",
        f"{sum(night.verdict is Verdict.INCONCLUSIVE for night in flat) / count:.2f}",
        f"{statistics.fmean(night.pairs > 0 for night in flat):.0%}, "
        f"{statistics.fmean(night.with_anchor for night in flat):.0%}",
        f"{statistics.fmean(night.pairs for night in flat):.1f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(
        "| world | 5 % slower, found on the first night | 0.5 % slower each night, found at "
        "(tenth to tenth; by 3 %) | unchanged: alarms in 30 nights of a case | open | nights with "
        "pairs, with the anchor's code | pairs a night |\n|---|---|---|---|---|---|---|"
    )
    for world in worlds():
        print(row(world, asked.tries, asked.seed), flush=True)


if __name__ == "__main__":
    main()
