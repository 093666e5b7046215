"""The windows of a log, kept in columns and joined if they are many, to bound memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Beyond this number windows are joined two by two, so that memory is bounded for any log.
MOST_WINDOWS: Final = 1 << 14
#: The first windows stay as they are: rules name iterations of the beginning.
KEPT: Final = 1 << 12


@dataclass(kw_only=True, slots=True)
class LogWindow:
    """Iterations ``first`` to ``last`` of the log, counted from 1.

    ``seconds_each`` is exact where the format prints it, else None: then ``rate`` says it all.
    """

    first: int
    last: int
    #: Rate of these iterations alone, and the rate as it stood in the log; in the format's scope.
    rate: float | None
    printed_rate: float | None
    seconds_each: float | None
    wait_each: float | None
    #: Iterations done, by the printed counter.
    label: int
    label_start: int | None
    work_each: float | None = None
    #: As printed, in the format's scope: of all iterations until the last one of the window.
    mean_rate: float | None = None
    at_s: float | None = None
    prints: int = 1
    epoch_begins: bool = False
    #: As in ``LogRecord``; the mean of several windows, of memory the most.
    memory_bytes: float | None = None
    tflops: float | None = None
    mfu: float | None = None
    grad_norm: float | None = None

    @property
    def iterations(self) -> int:
        """How many iterations it holds."""
        return self.last - self.first + 1


NAMES: Final = tuple(field.name for field in fields(LogWindow))


class LogWindows:
    """All windows so far: the latest as objects, which may still change, the rest in columns."""

    def __init__(self) -> None:
        self._columns: dict[str, Floats] = {name: np.empty(0) for name in NAMES}
        self._chunks: list[dict[str, Floats]] = []
        self._chunked = 0
        self._latest: list[LogWindow] = []

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._columns["first"]) + self._chunked + len(self._latest)

    @property
    def only(self) -> LogWindow:
        """The only window so far."""
        [window] = self._latest
        return window

    def append(self, window: LogWindow) -> None:
        """Add one, which may be changed until a few more have come."""
        self._latest.append(window)
        if len(self._latest) >= 4096:
            self._settle(keep=8)

    def extend(self, columns: dict[str, Floats]) -> None:
        """Add many windows, which will not change any more."""
        self._settle(keep=0)
        self._chunks.append(columns)
        self._chunked += len(columns["first"])
        if len(self) > 4 * MOST_WINDOWS:
            self._flush()

    def columns(self) -> Mapping[str, Floats]:
        """Return them by field, in the order of the log; NaN is what is not known."""
        self._flush()
        return self._columns

    def iterations(self) -> Floats:
        """Return how many iterations each holds."""
        return self.columns()["last"] - self.columns()["first"] + 1

    def _settle(self, keep: int) -> None:
        cut = len(self._latest) - keep
        done, self._latest = self._latest[:cut], self._latest[cut:]
        if done:
            rows = {
                name: np.array([getattr(window, name) for window in done], dtype=np.float64)
                for name in NAMES
            }
            self._chunks.append(rows)
            self._chunked += len(done)

    def _flush(self) -> None:
        """Put everything into the columns, and join what is too much."""
        self._settle(keep=0)
        if self._chunks:
            parts = [self._columns, *self._chunks]
            self._columns = {name: np.concatenate([p[name] for p in parts]) for name in NAMES}
            self._chunks, self._chunked = [], 0
        while len(self._columns["first"]) > MOST_WINDOWS:
            self._join()

    def _join(self) -> None:
        """Join neighbours after the first ``KEPT``; sums of work and time stay exact."""
        head = {name: column[:KEPT] for name, column in self._columns.items()}
        rest = {name: column[KEPT:] for name, column in self._columns.items()}
        even = len(rest["first"]) // 2 * 2
        one = {name: column[0:even:2] for name, column in rest.items()}
        two = {name: column[1:even:2] for name, column in rest.items()}
        joined = _merged(one, two)
        self._columns = {
            name: np.concatenate([head[name], joined[name], rest[name][even:]]) for name in NAMES
        }


def _merged(left: dict[str, Floats], right: dict[str, Floats]) -> dict[str, Floats]:
    n, m = (side["last"] - side["first"] + 1 for side in (left, right))
    total = n + m

    def mean(name: str) -> Floats:
        return (left[name] * n + right[name] * m) / total

    def harmonic(name: str) -> Floats:
        return total / (n / left[name] + m / right[name])

    def mean_of_known(name: str) -> Floats:
        one_sided = np.where(np.isnan(left[name]), right[name], left[name])
        both = mean(name)
        return np.where(np.isnan(both), one_sided, both)

    return {
        "first": right["last"] - total + 1,
        "last": right["last"],
        "rate": harmonic("rate"),
        "printed_rate": harmonic("printed_rate"),
        "seconds_each": mean("seconds_each"),
        "wait_each": mean("wait_each"),
        "work_each": mean("work_each"),
        "mean_rate": right["mean_rate"],
        "label": right["label"],
        "label_start": left["label_start"],
        "at_s": right["at_s"],
        "prints": np.maximum(left["prints"], right["prints"]),
        "epoch_begins": np.maximum(left["epoch_begins"], right["epoch_begins"]),
        "memory_bytes": np.fmax(left["memory_bytes"], right["memory_bytes"]),
        "tflops": mean_of_known("tflops"),
        "mfu": mean_of_known("mfu"),
        "grad_norm": mean_of_known("grad_norm"),
    }
