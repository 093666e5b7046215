"""Cut the log of a run that took turns by time: only what is within one turn counts.

A clock of the program goes on while it is frozen. So a time that it prints is wrong if the turn
before ended within it: that of the first record of a turn. A program may as well be frozen between
its look at the clock and its print; then it is that of the second record.
"""

from __future__ import annotations

import io
import statistics
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
    counts: bool = True


class CountedTurn(NamedTuple):
    """What counts of a turn."""

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
    #: Measured iterations, and their records, with those that do not count.
    iterations: int
    records: int
    #: Seconds of the turns in which they were printed.
    seconds: float

    @property
    def left_out(self) -> int:
        """How many measured iterations do not count."""
        return self.iterations - sum(turn.iterations for turn in self.turns)

    @property
    def record_s(self) -> float:
        """Seconds of a record, by the turns alone."""
        return self.seconds / self.records

    @property
    def time_share(self) -> float:
        """What records say that they took, over what they did by the turns; of a usual turn."""
        return statistics.median(
            turn.said_s / turn.lasted_s * (turn.records + LEFT_OUT) / turn.records
            for turn in self.turns
        )

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
    measured: RateSeries, kept: RateSeries, counted: Sequence[int], turns: Sequence[LogTurn]
) -> Cut:
    """Return how a log was cut to what is ``kept`` of the ``measured`` windows.

    Of these there is at least one; of those there may be none.
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
        iterations=int(measured.iterations.sum()),
        records=len(measured),
        seconds=lasted_s,
    )


def _places(series: RateSeries, counted: Sequence[int]) -> Integers:
    """Return the index of the stretch in which each window was printed."""
    return np.searchsorted(np.maximum.accumulate(counted), series.last, side="left")
