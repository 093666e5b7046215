"""All cases slower by the same amount: what a slower machine does, and seldom a change of code.

The canary is short; what it does not see (another memory setting, a slower network drive, a
clock that falls only under long load) still moves every case alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Verdict
from pytest_dlperf.judge import sentences

#: So few cases may be slower alike by chance, or by the change that they share.
_FEWEST: Final = 2
_JUDGED: Final = GOOD | {Verdict.REGRESSED, Verdict.INCONCLUSIVE}


def common_shift(so_far: Sequence[Comparison]) -> tuple[float, float] | None:
    """Return the interval of the change that all of ``so_far`` may share; None if they do not.

    They are the cases judged on one node, from the session's first: at least two, each slower for
    certain and by more than its tolerance, with intervals that overlap.
    """
    if len(so_far) < _FEWEST or not all(_is_slow(one) for one in so_far):
        return None
    intervals = [one.interval for one in so_far if one.interval is not None]
    low, high = max(low for low, _ in intervals), min(high for _, high in intervals)
    return (low, high) if low <= high else None


def checked(judged: Judgement, so_far: Sequence[Comparison], node: str) -> Judgement:
    """Return ``judged``, or ``incomparable`` if it shares the shift of the cases before it.

    Its runs had a canary of their own: where that moved, it is incomparable already. A case that
    is certified shows that the machine is well, and is left alone. Those before it stay
    ``regressed``, so that the session fails all the same.
    """
    shift = common_shift(so_far)
    if shift is None or judged.verdict in GOOD or judged.verdict not in _JUDGED:
        return judged
    found, memory = judged.throughput, judged.metrics.get("peak_memory")
    if found.verdict in GOOD or (memory is not None and memory.verdict is Verdict.REGRESSED):
        return judged  # a slower machine is no reason for what regressed
    if found.interval is None or found.interval[0] > shift[1] or shift[0] > found.interval[1]:
        return judged
    about = sentences.change(sum(shift) / 2)
    reason = (
        f"the first {len(so_far)} cases of this session on {node} are regressed, all {about} "
        "within their intervals, and so may this one be: that is rather the machine than a change "
        f"of each, though the canary, which ran again, has not moved; {sentences.SIDE_BY_SIDE}, "
        f"{sentences.AGAIN}"
    )
    unknown = replace(found, change=None, interval=None, sees=None, verdict=Verdict.INCOMPARABLE)
    return Judgement(verdict=Verdict.INCOMPARABLE, reason=reason, throughput=unknown)


def _is_slow(one: Comparison) -> bool:
    """Whether a case is slower for certain: one that only looks slow fails nothing by itself."""
    if one.verdict is not Verdict.REGRESSED:
        return False
    if one.change is None or one.interval is None or one.tolerance is None:
        return False
    return one.change < -one.tolerance
