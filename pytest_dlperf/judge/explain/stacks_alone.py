"""What host stacks show where nothing else is known: of steps that have no profile."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.outcome import Explanation
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.judge.explain.operator_changes import Profile
from pytest_dlperf.judge.explain.profile_tables import stack_times

#: Frames in a sentence.
_CLAUSES: Final = 3
#: A frame is named beyond so many times what equal runs differ by, and this share of a step.
_SPREADS: Final = 2
_LEAST: Final = 0.01


def has_stacks_alone(profiles: Sequence[Profile]) -> bool:
    """Return whether no rank of ``profiles`` has parts of its steps."""
    return not any("windows" in record for profile in profiles for record in profile.values())


def explain_by_stacks(before: Sequence[Profile], now: Sequence[Profile]) -> Explanation:
    """Return where the first rank that is known spends more or less time than before."""
    rank = min(set.intersection(*map(set, now)))
    old, new = (
        [profile[rank] for profile in profiles if "stacks" in profile.get(rank, ())]
        for profiles in (before, now)
    )
    return Explanation(
        rank=rank,
        before_ms=_step_ms(old) if old else None,
        after_ms=_step_ms(new),
        sentence=_words([_frame_ms(record) for record in old], [_frame_ms(one) for one in new]),
        stacks=stack_times(old, new),
    )


def _frame_ms(record: ProfileRecord) -> dict[str, float]:
    """Return the milliseconds a step of each innermost frame."""
    times: dict[str, float] = {}
    for stack in record.get("stacks", ()):
        frame = stack["frames"].rpartition(";")[2]
        times[frame] = times.get(frame, 0.0) + stack["seconds"] * 1000
    return times


def _step_ms(records: Sequence[ProfileRecord]) -> float:
    return statistics.fmean(sum(_frame_ms(record).values()) for record in records)


def _words(old: Sequence[dict[str, float]], new: Sequence[dict[str, float]]) -> str:
    begin = "host stacks, sampled by py-spy"
    if not old:
        return f"{begin}: none of before are there to compare with"
    whole_ms = statistics.fmean(sum(times.values()) for times in old)
    changes: list[tuple[float, str]] = []
    for frame in {frame for times in (*old, *new) for frame in times}:
        olds, news = ([times.get(frame, 0.0) for times in side] for side in (old, new))
        before_ms, after_ms = statistics.fmean(olds), statistics.fmean(news)
        spread_ms = max(max(olds) - min(olds), max(news) - min(news))
        difference_ms = after_ms - before_ms
        if abs(difference_ms) > max(_SPREADS * spread_ms, _LEAST * whole_ms):
            words = f"{frame} {difference_ms:+.3g} ms a step ({before_ms:.3g} to {after_ms:.3g})"
            changes.append((abs(difference_ms), words))
    if not changes:
        return f"{begin}: no frame differs by more than equal runs do"
    changes.sort(reverse=True)
    return f"{begin}: {', '.join(words for _, words in changes[:_CLAUSES])}"
