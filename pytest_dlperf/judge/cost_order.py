"""Whether a step starts its collectives in another order than before.

Ranks that do not agree on the order of their collectives wait for each other for ever. A trace has
one rank, and cannot say whether all changed alike: so an order is told, and not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_dlperf.core.wire_cost import FUSED_LATER, CollectiveCost, CostRecord, StageCost

#: Kind, ranks, dtype and bytes: what ranks must agree on.
_Kind = tuple[str, str, str, int]


def order_notes(before: CostRecord | None, now: CostRecord) -> Iterator[str]:
    """Yield a sentence for each rank whose collectives are the same in another order.

    None without a cost to compare with, where a compiler orders them, nor where there are more,
    fewer or others: that is told as it is.
    """
    if before is None or now["framework"] in FUSED_LATER:
        return
    for earlier, stage in zip(before["stages"], now["stages"], strict=True):
        swapped = _first_that_differs(earlier, stage)
        if swapped is not None:
            was, is_now = swapped
            rank = f" of rank {stage['rank']}" if len(now["stages"]) > 1 else ""
            yield (
                f"Collectives{rank} start in another order than before, first {_named(is_now)} "
                f"where {_named(was)} was: unless all ranks changed alike, they hang"
            )


def _first_that_differs(
    before: StageCost, now: StageCost
) -> tuple[CollectiveCost, CollectiveCost] | None:
    """Return the first collectives that changed places; None where none did."""
    if _calls(before) != _calls(now):
        return None
    sides = _runs(before), _runs(now)
    for index, (was, is_now) in enumerate(zip(*sides, strict=False)):
        if _kind(was) != _kind(is_now):
            return was, is_now
        # Of the shorter one the next begins where the other goes on
        if was["calls"] < is_now["calls"]:
            return sides[0][index + 1], is_now
        if was["calls"] > is_now["calls"]:
            return was, sides[1][index + 1]
    return None


def _calls(stage: StageCost) -> Counter[_Kind]:
    calls: Counter[_Kind] = Counter()
    for part in stage["collectives"]:
        calls[_kind(part)] += part["calls"]
    return calls


def _runs(stage: StageCost) -> list[CollectiveCost]:
    """Return collectives that follow each other as one, also those of several modules."""
    runs: list[CollectiveCost] = []
    for part in stage["collectives"]:
        if runs and _kind(runs[-1]) == _kind(part):
            runs[-1] = {**runs[-1], "calls": runs[-1]["calls"] + part["calls"]}
        else:
            runs.append(part)
    return runs


def _kind(part: CollectiveCost) -> _Kind:
    return part["kind"], part["spread"], part["dtype"], part["bytes"]


def _named(part: CollectiveCost) -> str:
    path = f" of {part['path']}" if part["path"] else ""
    return f"{part['kind']}{path}"
