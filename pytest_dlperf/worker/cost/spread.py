"""How the ranks of a group follow each other: ``8 ranks, 1 apart``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def spread_of(ranks: Sequence[int]) -> str:
    """Return how ``ranks``, in their order, follow each other; where they begin is left out.

    Groups of one layout are called alike: ``8 ranks, 1 apart``; ``2 x 4 ranks, 8 and 1 apart``
    for four ranks each of two nodes of eight; what follows no rule by its ranks: ``3 ranks: 0-1,
    5``.
    """
    if len(ranks) == 1:
        return "1 rank"
    steps = _steps(tuple(ranks))
    if steps is None:
        return f"{len(ranks)} ranks: {', '.join(_ranges(ranks))}"
    counts = " x ".join(str(count) for count, _ in steps)
    return f"{counts} ranks, {' and '.join(str(apart) for _, apart in steps)} apart"


def _steps(ranks: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Return how many blocks ``ranks`` are, and how far apart, from the outermost blocks in."""
    if len(ranks) == 1:
        return []
    apart = ranks[1] - ranks[0]
    length = 2
    while length < len(ranks) and ranks[length] - ranks[length - 1] == apart:
        length += 1
    if len(ranks) % length:
        return None
    begins = ranks[::length]
    regular = [begin + index * apart for begin in begins for index in range(length)]
    outer = _steps(begins)
    if regular != list(ranks) or outer is None:
        return None
    return [*outer, (length, apart)]


def _ranges(ranks: Sequence[int]) -> list[str]:
    """Return ranks that follow each other as ``0-3``."""
    numbered = groupby(enumerate(ranks), key=lambda item: item[1] - item[0])
    runs = [[rank for _, rank in run] for _, run in numbered]
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
