"""Each stored session judged against the others of its level: how often is that an alarm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.checked import Rate
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.verdict import GOOD, Comparison, Rule, Verdict
from pytest_dlperf.judge import metrics
from pytest_dlperf.judge.compare import comparison_of, tolerance_for
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.levels import Level, margin
from pytest_dlperf.judge.stats.stored import contrast_with, expected_spread_with
from pytest_dlperf.judge.stats.totals import Totals, each_left_out, totals_of

#: From one case to the next a session of pytest hardly takes longer.
_LONGEST_CASE: Final = timedelta(hours=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """When and where a session of one case was measured."""

    case: str
    #: ISO 8601; UTC where no zone is named.
    time: str
    #: What is equal throughout a session of pytest: machine class, node, commit.
    place: tuple[str, ...]

    @property
    def at(self) -> datetime:
        """The time, as one that can be compared."""
        # Python 3.10 does not read the Z
        found = datetime.fromisoformat(self.time.replace("Z", "+00:00"))
        return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def suite_sessions(stamps: Sequence[Stamp]) -> tuple[int, ...]:
    """Return for each stamp the number of its session of the suite, from 0 on.

    A session goes on while place and commit stay the same, each case ends within two hours of
    the one before, and no case comes twice: pytest runs each once.
    """
    numbers = [0] * len(stamps)
    order = sorted(range(len(stamps)), key=lambda i: (stamps[i].place, stamps[i].at))
    number, before, cases = -1, None, set[str]()
    for i in order:
        stamp = stamps[i]
        if (
            before is None
            or stamp.place != before.place
            or stamp.at - before.at > _LONGEST_CASE
            or stamp.case in cases
        ):
            number, cases = number + 1, set()
        cases.add(stamp.case)
        numbers[i], before = number, stamp
    return tuple(numbers)


#: Against a single other session every comparison is provisional.
FEWEST: Final = 3
#: What an interval of an observed rate leaves out on either side.
_TAIL: Final = 0.025


@dataclass(frozen=True, kw_only=True, slots=True)
class Gated:
    """One gated metric, as stored sessions tell it."""

    name: str
    level: Callable[[Session], Level | None]
    prior: Prior
    #: As in ``Metric``.
    sign: int = 1
    floor: float | None = None

    @property
    def decides(self) -> bool:
        """Whether too much scatter of this metric leaves the whole case unsteady."""
        return self.name == "throughput"


def gated_metrics(device: DeviceKind, rule: Rule) -> tuple[Gated, ...]:
    """Return the metrics that fail a case."""
    prior = rule.prior or priors.THROUGHPUT[device]
    return (
        Gated(name="throughput", level=metrics.stored_throughput, prior=prior),
        Gated(name="speedup", level=metrics.stored_speedup, prior=prior),
        Gated(
            name="peak_memory",
            level=metrics.stored_memory,
            prior=priors.MEMORY[device],
            sign=-1,
            floor=metrics.MEMORY_FLOOR,
        ),
    )


def leave_one_out(
    sessions: Sequence[Session], device: DeviceKind, rule: Rule
) -> tuple[Mapping[str, Comparison], ...]:
    """Return what the rule says of each session's metrics, judged against the other sessions.

    The sessions are of one level. A metric that fewer than three of them have is not judged. The
    verdict on all of them is ``unsteady`` where the throughput of the others scatters more than
    ``tolerance_max`` allows.
    """
    found: list[dict[str, Comparison]] = [{} for _ in sessions]
    for gated in gated_metrics(device, rule):
        levels = {i: one for i, s in enumerate(sessions) if (one := gated.level(s)) is not None}
        if len(levels) < FEWEST:
            continue
        others = _others(tuple(levels.values()), gated.prior)
        for (i, now), stored in zip(levels.items(), others, strict=True):
            is_unsteady = any(one.verdict is Verdict.UNSTEADY for one in found[i].values())
            found[i][gated.name] = (
                Comparison(verdict=Verdict.UNSTEADY)
                if is_unsteady
                else _compared(now, stored, gated, rule)
            )
    return tuple(found)


def _others(levels: Sequence[Level], prior: Prior) -> Iterator[Totals]:
    """Yield of each level the totals of those it is judged against: see ``comparable``."""
    counts = Counter(level.node for level in levels if level.node)
    of_node = {
        node: each_left_out([level for level in levels if level.node == node], prior)
        for node, count in counts.items()
        if count > metrics.ENOUGH_ON_NODE
    }
    for level, others in zip(levels, each_left_out(levels, prior), strict=True):
        yield next(of_node[level.node]) if level.node in of_node else others


def against_level(
    session: Session, level: Sequence[Session], device: DeviceKind, rule: Rule
) -> Mapping[str, Comparison]:
    """Return what the rule says of a session that was set aside, against those of its level."""
    found: dict[str, Comparison] = {}
    for gated in gated_metrics(device, rule):
        now = gated.level(session)
        levels = [one for other in level if (one := gated.level(other)) is not None]
        if now is None or not levels:
            continue
        stored = totals_of(metrics.comparable(now.node, levels), gated.prior)
        compared = _compared(now, stored, gated, rule)
        change = math.expm1(gated.sign * (now.value - stored.value))
        found[gated.name] = replace(compared, change=change)
    return found


def _compared(now: Level, stored: Totals, gated: Gated, rule: Rule) -> Comparison:
    tolerance = tolerance_of(now, stored, gated, rule)
    if tolerance > rule.tolerance_max:
        if gated.decides and rule.tolerance is None:
            return Comparison(verdict=Verdict.UNSTEADY)
        if rule.tolerance is None:
            tolerance = rule.tolerance_max
    return comparison_of(
        contrast_with([now], stored, gated.prior),
        tolerance,
        family.of_throughput(rule) if gated.decides else family.of_other(rule),
        ONE_LOOK,
        sign=gated.sign,
        floor=gated.floor,
    )


def tolerance_of(now: Level, stored: Totals, gated: Gated, rule: Rule) -> float:
    """Return the tolerance that holds for a session like ``now``: given, or learnt."""
    if rule.tolerance is not None and gated.decides:
        return rule.tolerance
    expected = expected_spread_with(now.share, stored, gated.prior)
    return tolerance_for(expected, rule, ONE_LOOK, gated.sign)


def can_be_certified(levels: Sequence[Level], gated: Gated, rule: Rule) -> bool:
    """Whether a further session like the last one is certified, if it is at its level."""
    stored = totals_of(metrics.comparable(levels[-1].node, levels), gated.prior)
    tolerance = tolerance_of(levels[-1], stored, gated, rule)
    if rule.tolerance is None:
        return tolerance <= rule.tolerance_max
    expected = expected_spread_with(levels[-1].share, stored, gated.prior)
    return expected.reach(rule.alpha * ONE_LOOK.certify) < margin(tolerance, gated.sign)


def alarms_in(judged: Mapping[str, Comparison]) -> frozenset[str]:
    """Return the metrics by which gate mode would have failed the session.

    As in ``verdict.py`` a speedup that fell fails none whose throughput is certified.
    """
    throughput = judged["throughput"].verdict if "throughput" in judged else None
    worse = {name for name, one in judged.items() if one.verdict is Verdict.REGRESSED}
    return frozenset(worse - {"speedup"} if throughput in GOOD else worse)


def observed_rate(alarms: int, tries: int) -> Rate:
    """Return a rate with its Clopper-Pearson interval of 95 %."""
    from scipy.stats import beta

    if not tries:
        return Rate(alarms=alarms, tries=tries, rate=None, interval=None)
    low = float(beta.ppf(_TAIL, alarms, tries - alarms + 1)) if alarms else 0.0
    high = float(beta.ppf(1 - _TAIL, alarms + 1, tries - alarms)) if alarms < tries else 1.0
    return Rate(alarms=alarms, tries=tries, rate=alarms / tries, interval=(low, high))
