"""The turns by time of a pair: how long they are to be, and which of them count.

They are those of programs whose log alone is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_dlperf.core.case import Case

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.turns import Cut

#: A turn is to have so many records; ...
_RECORDS: Final = 7
#: ... one that has as many as these is left as it is. Two records of each do not count.
_ENOUGH: Final = 5
#: Fewer records than these do not make a turn count.
_FEWEST_RECORDS: Final = 2
#: So many turns of both arms have to count.
FEWEST_TURNS: Final = 4
#: What the records of a turn say that they took may be more than it was, by rounding. Where it is
#: more than this, one of them has the other arm's turn in it, which is about as long.
_MOST_TIME: Final = 1.2
#: So much more than by the turns may a usual iteration take by its records, or the mean of them.
#: By means over several of them both take more, as a rest of the other arm's turns is in each. On
#: a machine whose speed changes the usual one alone may, and with stalls the mean alone; ...
_MOST_SHARE: Final = 1.05
#: ... where the mean iteration takes less than this by them, nobody would see that.
_LEAST_SHARE: Final = 0.6
#: More of the turns than this share come late where a log is buffered.
_LATE: Final = 0.2
#: Why launches alternate.
_OTHERS_TIME: Final = (
    "the times in its log have the other arm's turns in them, as those of buffered output do, "
    "which comes late, and means over several records"
)
#: An arm is frozen for two turns, where order is drawn so, and libraries of its ranks may take a
#: peer for lost after ten seconds (TensorFlow's multi-worker strategy).
LONGEST_TURN_S: Final = 3.0


class ByTime(NamedTuple):
    """The turns of a pair, by time."""

    #: Seconds of a turn.
    turn_s: float
    #: Whether a trial has shown that it is long enough.
    is_tried: bool = False


class OtherTurnsError(Exception):
    """The pair was a trial: others of ``case`` have turns ``by_time``; the message says why."""

    def __init__(self, message: str, by_time: ByTime, case: Case) -> None:
        super().__init__(message)
        self.by_time, self.case = by_time, case


def seconds_of_a_turn(turn_s: float, cuts: Sequence[Cut]) -> float:
    """Return the seconds of a turn with enough records of both logs: ``turn_s`` where it has."""
    record_s = max(cut.record_s for cut in cuts)
    return turn_s if turn_s >= _ENOUGH * record_s else _RECORDS * record_s


class Common(NamedTuple):
    """Numbers of the turns of a pair that count."""

    #: Those that are within the measured windows of both arms.
    within: frozenset[int]
    #: Those of them whose records count.
    recorded: frozenset[int]


def turns_that_count(cuts: Sequence[Cut]) -> Common | str:
    """Return which turns count in all logs; or why the pair has too few."""
    turns = [turn for cut in cuts for turn in cut.turns]
    if not all(cut.turns for cut in cuts):
        return too_few(cuts)
    late = {turn.number for turn in turns if turn.said_s > _MOST_TIME * turn.lasted_s}
    if len(late) > _LATE * len({turn.number for turn in turns}):
        return _OTHERS_TIME
    within = frozenset.intersection(
        *(frozenset(turn.number for turn in cut.whole) for cut in cuts)
    )
    recorded = within.intersection(
        *({turn.number for turn in cut.turns if turn.records >= _FEWEST_RECORDS} for cut in cuts)
    )
    recorded -= late
    if len(recorded) < FEWEST_TURNS:
        return (
            f"only {len(recorded)} of its turns have records of both arms' measured iterations, "
            f"and {FEWEST_TURNS} are needed"
        )
    steps_s = [_step_s(cut, within) for cut in cuts]
    if any(
        min(cut.usual_step_s, cut.mean_step_s) > _MOST_SHARE * step_s
        for cut, step_s in zip(cuts, steps_s, strict=True)
    ):
        return _OTHERS_TIME
    share = min(cut.mean_step_s / step_s for cut, step_s in zip(cuts, steps_s, strict=True))
    if share < _LEAST_SHARE:
        return (
            f"the times in its log are {share:.0%} of those by the turns, so that nobody would "
            "see the other arm's turns in them"
        )
    return Common(within, recorded)


def _step_s(cut: Cut, within: frozenset[int]) -> float:
    """Return the seconds of an iteration, by these turns."""
    turns = [turn for turn in cut.whole if turn.number in within]
    return sum(turn.seconds for turn in turns) / sum(turn.iterations for turn in turns)


def too_few(cuts: Sequence[Cut]) -> str:
    """Return that logs have too few records for turns."""
    cut = min(cuts, key=lambda cut: cut.records)
    return (
        f"its log has {cut.records} records of measured iterations, too few for {FEWEST_TURNS} "
        f"turns of {_RECORDS}"
    )
