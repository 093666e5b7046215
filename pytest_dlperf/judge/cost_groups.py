"""Collectives that other ranks take part in than before.

Which links a group of ranks has, no trace knows: that of other ranks may be as fast, or many times
slower. So it is neither more nor less, and is told by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_dlperf.core.cost import CostChange, CostFigure
from pytest_dlperf.core.wire_cost import CollectiveCost, StageCost

#: Places that are kept, those with the most collectives.
_PLACES: Final = 3


class _Collective(NamedTuple):
    kind: str
    dtype: str
    bytes: int
    spread: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Swap:
    """Collectives of a kind whose ranks changed."""

    kind: str
    before: str
    now: str
    calls: int


def regrouped_calls(before: StageCost, now: StageCost) -> int:
    """Return how many collectives have other ranks now, and are not more, nor fewer."""
    return sum(swap.calls for swap in _swaps(before, now))


def group_changes(figure: CostFigure, before: StageCost, now: StageCost) -> list[CostChange]:
    """Return where collectives have other ranks, the most first."""
    changes = []
    names_before, names_now = _names(before), _names(now)
    for swap in _swaps(before, now):
        places = _places(swap, before, now)
        path, phase = max(places, key=lambda place: (places[place], place), default=("", ""))
        was, is_now = names_before[swap.before], names_now[swap.now]
        changes.append(
            CostChange(
                name=figure.name,
                dtype="",
                rank=figure.rank,
                path=path,
                phase=phase,
                what=f"{swap.kind} among {is_now} in place of {was}",
                calls_before=0,
                calls_now=swap.calls,
                increase=swap.calls,
            )
        )
    changes.sort(key=lambda change: (-change.increase, change.path, change.what))
    return changes[:_PLACES]


def _swaps(before: StageCost, now: StageCost) -> list[_Swap]:
    """Return collectives that left ranks for others: those of equal bytes, then of one kind."""
    balance = _calls(now)
    balance.subtract(_calls(before))
    swaps = list(_taken(balance, lambda key: (key.kind, key.dtype, key.bytes)))
    # What is left at one group differs in bytes alone
    rest: Counter[_Collective] = Counter()
    for key, calls in balance.items():
        rest[_Collective(key.kind, "", 0, key.spread)] += calls
    swaps += _taken(rest, lambda key: key.kind)
    merged: Counter[tuple[str, str, str]] = Counter()
    for swap in swaps:
        merged[swap.kind, swap.before, swap.now] += swap.calls
    return [
        _Swap(kind=kind, before=was, now=is_now, calls=calls)
        for (kind, was, is_now), calls in merged.items()
    ]


def _taken(
    balance: Counter[_Collective], group: Callable[[_Collective], object]
) -> Iterator[_Swap]:
    """Yield what ranks lost to others within a ``group``, and take it out of ``balance``."""
    for gained in sorted(key for key, calls in balance.items() if calls > 0):
        for lost in sorted(key for key, calls in balance.items() if calls < 0):
            calls = min(balance[gained], -balance[lost])
            if calls > 0 and group(gained) == group(lost):
                balance[gained] -= calls
                balance[lost] += calls
                yield _Swap(kind=gained.kind, before=lost.spread, now=gained.spread, calls=calls)


def _calls(stage: StageCost) -> Counter[_Collective]:
    calls: Counter[_Collective] = Counter()
    for part in stage["collectives"]:
        key = _Collective(part["kind"], part["dtype"], part["bytes"], part["spread"])
        calls[key] += part["calls"]
    return calls


def _places(swap: _Swap, before: StageCost, now: StageCost) -> Counter[tuple[str, str]]:
    """Return paths and phases that have more collectives among the new ranks than before."""
    places: Counter[tuple[str, str]] = Counter()
    for sign, stage in ((1, now), (-1, before)):
        for part in stage["collectives"]:
            if (part["kind"], part["spread"]) == (swap.kind, swap.now):
                places[part["path"], part["phase"]] += sign * part["calls"]
    return +places


def _names(stage: StageCost) -> dict[str, str]:
    """Return how groups are called, by how their ranks follow each other."""
    return {part["spread"]: _name(part) for part in stage["collectives"]}


def _name(part: CollectiveCost) -> str:
    group, spread = part["group"], part["spread"]
    return spread if group == spread else f"{group} ({spread})"
