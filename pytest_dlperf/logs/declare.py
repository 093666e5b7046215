"""What a format declares about its numbers, and what one line of it says."""

from __future__ import annotations

import math
import re
from collections.abc import Callable  # noqa: TC003 - dataclass field
from dataclasses import dataclass
from typing import Final, Literal

from pytest_dlperf.core.log_pattern import Averaging, Scope  # noqa: TC001 - dataclass fields

NUMBER: Final = rb"([+-]?\d[\d,]{0,24}\.?\d{0,24}(?:[eE][+-]?\d{1,3})?)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one line says; None is what it does not say."""

    #: As printed.
    step: int
    epoch: int | None = None
    #: In the format's unit, in its scope.
    rate: float | None = None
    #: Of one iteration; the rate where no rate is printed.
    seconds: float | None = None
    #: Of one iteration, within ``seconds``.
    data_wait_seconds: float | None = None
    #: Infinite stands for any loss that is printed and is no finite number.
    loss: float | None = None
    #: Work of one iteration in the rate's scope, where it varies (tokens).
    work: float | None = None
    #: First step of the window, where the line prints it.
    start: int | None = None
    #: How many steps the run was to have, where the line prints it.
    total: int | None = None
    #: Work over time of the whole run, by the program's own account.
    whole_run: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A log format: the meaning of its rate, and the function that reads a line."""

    name: str
    scope: Scope
    averaging: Averaging
    unit: str
    #: Bytes that every record has; only lines with one of them are parsed.
    anchors: tuple[bytes, ...]
    #: Gets a plain line with an anchor; None where it is no record.
    parse: Callable[[bytes], Reading | None]
    #: Whether a line is a record or not, and which number is which, is for the places of its
    #: digits to say and never for the digits themselves: then lines are read by columns.
    by_shape: bool = False
    #: What the first iteration is called in print.
    first_step: Literal[0, 1] = 0
    #: Step of the epoch at which a running mean starts anew.
    running_since: int = 0
    #: ``epoch``: starts anew with each epoch; ``global``: runs on; ``stalls``: runs on, and may
    #: stand still for iterations that count.
    counter: Literal["epoch", "global", "stalls"] = "epoch"
    #: The step stands on one line (a reading without a rate), the rate on the next (step -1).
    two_lines: bool = False
    #: The batch size that the log prints is that of all devices.
    global_batch: bool = False
    #: Where the program itself left its warm-up out of what it prints.
    warmup_removed: bool = False


#: How a loss that is no finite number is printed.
NOT_FINITE: Final = rb"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)\b"


class Field:
    """A labelled number; a search for it takes time in proportion to the line."""

    __slots__ = ("_search",)

    def __init__(self, before: bytes, after: bytes = b"") -> None:
        """``before`` and ``after`` are patterns without open repetition."""
        self._search = re.compile(before + NUMBER + after).search

    def __call__(self, line: bytes) -> float | None:
        """Return the number, or None where it is absent or not finite."""
        match = self._search(line)
        if match is None:
            return None
        value = float(match[1].replace(b",", b""))
        return value if math.isfinite(value) else None

    def whole(self, line: bytes) -> int | None:
        """Return the number as a count, or None where it is none."""
        value = self(line)
        return None if value is None or not 0 <= value < 1e15 else int(value)


class Loss(Field):
    """A labelled loss: infinite where the log prints one that is no finite number."""

    __slots__ = ()

    def __init__(self, before: bytes, after: bytes = b"") -> None:
        self._search = re.compile(
            before + b"(?:" + NUMBER + b"|" + NOT_FINITE + b")" + after
        ).search

    def __call__(self, line: bytes) -> float | None:
        """Return the loss, or None where it is absent."""
        match = self._search(line)
        if match is None:
            return None
        return math.inf if match[1] is None else float(match[1].replace(b",", b""))
