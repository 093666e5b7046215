"""Detects that all cases of a session became slower by the same amount: a slower machine.

The canary is short. What it misses (another memory setting, a slower network drive, a clock
that falls only under long load) still slows every case alike; a change of code seldom does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pytest_dlperf.core.verdict import GOOD, JUDGED, Comparison, Judgement, Verdict
from pytest_dlperf.judge import sentences

#: With fewer cases nothing shows that they share a shift.
_FEWEST: Final = 2


def with_common_shift(
    judged: Judgement, so_far: Sequence[Comparison], node: str, fixed: Collection[str] = ()
) -> Judgement:
    """Return ``judged``, or ``incomparable`` if it shares the shift of the cases before it.

    ``fixed`` are the gated metrics that a slower machine does not move.

    Its runs had their own canary: where that moved, the case is incomparable already, unless the
    machine's speed was taken out of its rate: then what is left is its own. A certified
    case shows that the machine is well, and is returned as it is. The cases before it stay
    ``regressed``, so that the session still fails.
    """
    shift = common_shift(so_far)
    if shift is None or judged.verdict in GOOD or judged.verdict not in JUDGED:
        return judged
    found = judged.throughput
    if found.machine_change is not None:
        return judged  # without the machine's speed already
    worse = {n for n, one in judged.metrics.items() if one.verdict is Verdict.REGRESSED}
    if found.verdict in GOOD or worse & {"peak_memory", *fixed}:
        return judged  # a slower machine does not explain what regressed
    if found.interval is None or found.interval[0] > shift[1] or shift[0] > found.interval[1]:
        return judged
    about = sentences.change(sum(shift) / 2)
    reason = (
        f"the first {len(so_far)} cases of this session on {node} regressed, all {about} within "
        "their intervals, and so may this one: that points to the machine rather than to each "
        f"case, although the canary, which ran again, has not moved; {sentences.SIDE_BY_SIDE}, or "
        f"{sentences.AS_BEFORE}"
    )
    unknown = found.as_refused(Verdict.INCOMPARABLE)
    return Judgement(verdict=Verdict.INCOMPARABLE, reason=reason, throughput=unknown)


def common_shift(so_far: Sequence[Comparison]) -> tuple[float, float] | None:
    """Return the interval of the change that all of ``so_far`` may share; None if they do not.

    They are the first cases that the session judged on one node: at least two, each certainly
    slower, with intervals that overlap.
    """
    if len(so_far) < _FEWEST or not all(_is_slow(one) for one in so_far):
        return None
    intervals = [one.interval for one in so_far if one.interval is not None]
    low, high = max(low for low, _ in intervals), min(high for _, high in intervals)
    return (low, high) if low <= high else None


def _is_slow(one: Comparison) -> bool:
    """Whether the throughput itself is certainly slower."""
    if one.change is None or one.interval is None:
        return False
    return one.verdict is Verdict.REGRESSED and one.change < 0
