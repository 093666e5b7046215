"""The states of a progress bar in a log of no known format, and its rate by its own clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pytest_dlperf.measure.logs.clean import untagged

#: A bar of ``tqdm``: its name, steps, total, and the time since it began.
BAR: Final = re.compile(
    rb"(?P<name>[^|\n]{0,200}?)\d{1,3}%\|[^|\n]{0,400}\| {0,8}(?P<done>\d{1,15})/\d{1,15} "
    rb"\[(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)<[\d:?]{1,16}, {0,4}"
    rb"(?P<speed>[^,\]]{0,40})"
)
_DIGITS: Final = re.compile(rb"\d+")
#: A rate by whole seconds is as exact as this where it is compared.
_LEAST_S: Final = 20.0


class State(NamedTuple):
    """A state of a bar."""

    line: str
    done: int
    elapsed_s: float


def states_like(line: str, blocks: Iterable[bytes]) -> Iterator[State]:
    """Yield all states that the bar of a line has in a log, where they have a speed."""
    bar = BAR.match(line.encode(errors="surrogateescape"))
    if bar is None:
        return
    name = _DIGITS.sub(b"0", bar["name"].strip())
    for block in blocks:
        for text in block.split(b"\n"):
            state = untagged(text[:2000]).text
            match = BAR.match(state) if b"%|" in state else None
            if match is None or _DIGITS.sub(b"0", match["name"].strip()) != name:
                continue
            if match["speed"][:1].isdigit():
                hours, minutes, seconds = (
                    int(match[part] or 0) for part in ("hours", "minutes", "seconds")
                )
                yield State(
                    line=state.decode(errors="surrogateescape"),
                    done=int(match["done"]),
                    elapsed_s=3600.0 * hours + 60 * minutes + seconds,
                )


def rate_by_clock(states: Sequence[State], skip: int) -> float | None:
    """Return the steps a second of a bar by its clock, without the first ``skip`` steps.

    None where it shows too few seconds. A bar that begins again is another one.
    """
    steps, elapsed_s, warm = 0, 0.0, 0
    for before, state in pairwise(states):
        moved, took_s = state.done - before.done, state.elapsed_s - before.elapsed_s
        if moved < 0 or took_s < 0:
            continue
        warm += moved
        if warm > skip:
            steps, elapsed_s = steps + moved, elapsed_s + took_s
    return steps / elapsed_s if steps and elapsed_s >= _LEAST_S else None
