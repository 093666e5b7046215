"""Cut the log of a run that took turns by time: only what is within one turn counts.

A clock of the program goes on while it is frozen. So a time that it prints is wrong if the turn
before ended within it: that of the first record of a turn. A program may as well be frozen between
its look at the clock and its print; then it is that of the second record.

Long records are mostly those that a turn's end cuts, so that what counts has too few of them. The
rate over the whole window is by the turns alone: their seconds, and the iterations that ended in
them. It is off by a record at each end at most.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.clean import blocks, plain
from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Integers = NDArray[np.intp]

#: Records at the begin of a turn that do not count.
LEFT_OUT: Final = 2


class LogTurn(NamedTuple):
    """A turn of a run, in one of its logs; it begins where the one before ended."""

    number: int
    #: Bytes of the log at its end.
    end: int
    seconds: float
    #: Whether it may be within the measured iterations.
    is_within: bool = True
    #: Whether its records count.
    counts: bool = True


class WholeTurn(NamedTuple):
    """A turn from whose begin to whose end measured iterations went on."""

    number: int
    #: How many ended in it.
    iterations: int
    seconds: float


class CountedTurn(NamedTuple):
    """What its records say of a turn; two of them are left out."""

    number: int
    records: int
    iterations: int
    #: Seconds that its records say they took, and those of the whole turn.
    said_s: float
    lasted_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """How a log was cut."""

    turns: tuple[CountedTurn, ...]
    whole: tuple[WholeTurn, ...]
    #: Seconds of a usual iteration, as the records that count say; 0 without any.
    usual_step_s: float
    #: Whether its format says that what it prints are running means.
    is_running: bool
    #: Measured iterations, and their records, with those that do not count.
    iterations: int
    records: int
    #: Seconds of the turns in which they were printed.
    seconds: float

    @property
    def mean_step_s(self) -> float:
        """Seconds of an iteration, as the records that count say; at least one does."""
        return sum(turn.said_s for turn in self.turns) / sum(
            turn.iterations for turn in self.turns
        )

    @property
    def left_out(self) -> int:
        """How many measured iterations do not count."""
        return self.iterations - sum(turn.iterations for turn in self.turns)

    @property
    def record_s(self) -> float:
        """Seconds of a record, by the turns alone."""
        return self.seconds / self.records

    @property
    def step_s(self) -> float:
        """Seconds of an iteration, by the turns alone."""
        return self.seconds / self.iterations


def stretches(stream: BinaryIO, turns: Sequence[LogTurn]) -> Iterator[Iterable[bytes]]:
    """Yield the plain blocks of each turn of a log, and then those of what follows the last.

    A line belongs to the turn in which it ended.
    """
    begin, rest = 0, b""
    for turn in turns:
        text = rest + stream.read(turn.end - begin)
        begin = turn.end
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        rest = text[end:]
        yield [plain(text[:end])] if end else []
    yield blocks(io.BytesIO(rest + stream.read()))


def within_turns(series: RateSeries, counted: Sequence[int], turns: Sequence[LogTurn]) -> Flags:
    """Return which windows are within one turn that counts.

    ``counted`` has the number of iterations that the log had at the end of each stretch.
    """
    kept = np.zeros(len(series), dtype=bool)
    places = _places(series, counted)
    for place, turn in enumerate(turns):
        inside = np.flatnonzero(places == place)
        if turn.counts and len(inside) > LEFT_OUT:
            later = inside[LEFT_OUT:]
            # A window may have iterations of those before it, where their means were too coarse
            kept[later] = series.first[later] > series.last[inside[LEFT_OUT - 1]]
    return kept


def cut_of(
    measured: RateSeries,
    kept: RateSeries,
    counted: Sequence[int],
    turns: Sequence[LogTurn],
    *,
    is_running: bool,
) -> Cut:
    """Return how a log was cut to what is ``kept`` of the ``measured`` windows.

    Of these there is at least one; of those there may be none. ``is_running`` is set where its
    format prints running means.
    """
    places = _places(kept, counted)
    rows = [(turn, kept.where(places == place)) for place, turn in enumerate(turns)]
    given = _places(measured, counted)
    lasted_s = sum(turn.seconds for turn in turns[given[0] : given[-1] + 1])
    return Cut(
        turns=tuple(
            CountedTurn(
                number=turn.number,
                records=len(inside),
                iterations=int(inside.iterations.sum()),
                said_s=float(inside.seconds.sum()),
                lasted_s=turn.seconds,
            )
            for turn, inside in rows
            if len(inside)
        ),
        whole=tuple(_whole(measured, counted, turns)),
        usual_step_s=float(np.median(kept.seconds / kept.iterations)) if len(kept) else 0.0,
        is_running=is_running,
        iterations=int(measured.iterations.sum()),
        records=len(measured),
        seconds=lasted_s,
    )


def _whole(
    measured: RateSeries, counted: Sequence[int], turns: Sequence[LogTurn]
) -> Iterator[WholeTurn]:
    """Yield the turns between that of the first measured iteration and that of the last.

    In those two the program may have done something else as well.
    """
    ends = np.maximum.accumulate(counted).tolist()
    for turn, begin, end in zip(turns[1:], ends, ends[1:], strict=False):
        if turn.is_within and begin >= measured.first[0] and end < measured.last[-1]:
            yield WholeTurn(turn.number, end - begin, turn.seconds)


def _places(series: RateSeries, counted: Sequence[int]) -> Integers:
    """Return the index of the stretch in which each window was printed."""
    return np.searchsorted(np.maximum.accumulate(counted), series.last, side="left")
