"""Finds where the work of a step changed: modules and operators, without what only moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pytest_dlperf.core.cost import CostChange, CostFigure, ModuleCost
from pytest_dlperf.core.wire_cost import (
    CollectiveCost,
    CostRecord,
    OperatorCost,
    PlaceCount,
    StageCost,
)

#: Places that are kept of each figure, those that changed it most.
_PLACES: Final = 3
#: A product has two in its backward, by its input and by its weight: of another name where it has
#: a bias, ``addmm`` and ``mm``.
_OF_ITS_BACKWARD: Final = 2


class _Key(NamedTuple):
    """One kind of work at one place."""

    path: str
    phase: str
    what: str
    shapes: str = ""


@dataclass(slots=True)
class _Work:
    calls: int = 0
    amount: int = 0


@dataclass(slots=True)
class _Sides:
    """One kind of work before and now."""

    before: _Work = field(default_factory=_Work)
    now: _Work = field(default_factory=_Work)

    @property
    def increase(self) -> int:
        return self.now.amount - self.before.amount


def sent_bytes(collective: CollectiveCost) -> int:
    """Return the bytes that a rank sends at least in all calls of a collective.

    The factors are those of rings, which NCCL's own tests name "bus bandwidth":
    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    ranks, whole = max(1, collective["ranks"]), collective["bytes"] * collective["calls"]
    if collective["kind"] == "all-reduce":
        return 2 * whole * (ranks - 1) // ranks
    if collective["kind"] in {"all-gather", "reduce-scatter", "all-to-all"}:
        return whole * (ranks - 1) // ranks
    return whole


def changes_of(figure: CostFigure, before: StageCost, now: StageCost) -> list[CostChange]:
    """Return what changed a figure in its direction, the most first.

    Work that moved from one module to another changes none.
    """
    sides: defaultdict[_Key, _Sides] = defaultdict(_Sides)
    for key, calls, amount in _work(figure, before):
        sides[key].before.calls += calls
        sides[key].before.amount += amount
    for key, calls, amount in _work(figure, now):
        sides[key].now.calls += calls
        sides[key].now.amount += amount
    sign = 1 if figure.increase > 0 else -1
    by_place: defaultdict[tuple[str, str], dict[str, _Sides]] = defaultdict(dict)
    for key, side in sides.items():
        phases = by_place[key.path, key.what]
        whole = phases.setdefault(key.phase, _Sides())
        for total, part in ((whole.before, side.before), (whole.now, side.now)):
            total.calls += part.calls
            total.amount += part.amount
    added = _not_moved(sides, sign)
    changes = []
    for (path, what), phases in by_place.items():
        increase = sum(side.increase for side in phases.values())
        # Of other shapes than before only the difference counts
        count = min(sign * increase, added.get((path, what), 0))
        if count <= 0:
            continue
        phase = max(phases, key=lambda name: _rank_of_phase(name, phases[name], sign))
        changes.append(
            CostChange(
                name=figure.name,
                dtype=figure.dtype,
                rank=figure.rank,
                path=_shown_place(figure, path, what, before, now),
                phase=phase,
                what=what,
                calls_before=phases[phase].before.calls,
                calls_now=phases[phase].now.calls,
                increase=sign * count,
                layers=_layers(path, before, now),
            )
        )
    changes.sort(key=lambda change: (-abs(change.increase), change.path, change.what))
    return _forward_first(changes)[:_PLACES]


def _forward_first(changes: list[CostChange]) -> list[CostChange]:
    """Return the changes with that of the forward first, where it brought the first one about.

    Only a backward follows from its forward: an update at the same path does not.
    """
    if not changes or changes[0].phase != "backward":
        return changes
    for change in changes:
        is_cause = change.path == changes[0].path and change.phase == "forward"
        if is_cause and abs(change.increase) * _OF_ITS_BACKWARD >= abs(changes[0].increase):
            return [change, *(other for other in changes if other is not change)]
    return changes


def _rank_of_phase(phase: str, side: _Sides, sign: int) -> tuple[bool, int]:
    """Return what sorts the phase last that a reader knows: the forward pass, if it changed."""
    return (phase == "forward" and sign * side.increase > 0, sign * side.increase)


def _not_moved(sides: Mapping[_Key, _Sides], sign: int) -> dict[tuple[str, str], int]:
    """Return by path and kind what came to it, without what left another path for it."""
    groups: defaultdict[tuple[str, str], list[tuple[int, _Key]]] = defaultdict(list)
    for key, side in sides.items():
        groups[key.what, key.shapes].append((sign * side.increase, key))
    added: defaultdict[tuple[str, str], int] = defaultdict(int)
    for group in groups.values():
        gone = -sum(change for change, _ in group if change < 0)
        for change, key in sorted(group, key=lambda item: (-item[0], item[1])):
            if change <= 0:
                break
            # What moved is most of what came
            moved = min(change, gone)
            gone -= moved
            added[key.path, key.what] += change - moved
    return added


def _work(figure: CostFigure, stage: StageCost) -> Iterator[tuple[_Key, int, int]]:
    """Yield the work that a figure counts: its key, calls, and what it adds to the figure."""
    name = figure.name
    if name in {"host_waits", "graph_breaks"}:
        for place in _places(name, stage):
            yield _Key(_file_of(place), "", place["what"]), place["count"], place["count"]
    elif name in {"collectives", "collective_bytes"}:
        for sent in stage["collectives"]:
            shapes = f"{sent['dtype']} {sent['bytes']} {sent['ranks']}"
            amount = sent["calls"] if name == "collectives" else sent_bytes(sent)
            yield _Key(sent["path"], sent["phase"], sent["kind"], shapes), sent["calls"], amount
    elif name == "peak_memory":
        for live in stage["memory"]["at_peak"]:
            yield _Key(live["path"], "", live["kind"]), 0, live["bytes"]
    elif name in {"flops", "launches", "memory_traffic"}:
        yield from _operators(figure, stage)


def _operators(figure: CostFigure, stage: StageCost) -> Iterator[tuple[_Key, int, int]]:
    for operator in stage["operators"]:
        key = _Key(operator["path"], operator["phase"], operator["name"], operator["shapes"])
        calls = operator["calls"]
        if figure.name == "flops":
            if operator["flops_dtype"] == figure.dtype:
                yield key, calls, operator["flops"]
        else:
            yield key, calls, calls if figure.name == "launches" else traffic_of(operator)


def traffic_of(operator: OperatorCost) -> int:
    """Return the bytes that an operator reads and writes."""
    return operator["read_bytes"] + operator["written_bytes"]


def _places(name: str, stage: StageCost) -> list[PlaceCount]:
    return stage["host_waits"] if name == "host_waits" else stage["graph_breaks"]


def _file_of(place: PlaceCount) -> str:
    """Return the file alone: lines move with every edit."""
    return place["place"].rpartition(":")[0] or place["place"]


def _shown_place(
    figure: CostFigure, path: str, what: str, before: StageCost, now: StageCost
) -> str:
    """Return the line of a file that is new, or the first; another path as it is."""
    if figure.name not in {"host_waits", "graph_breaks"}:
        return path
    lines = [
        [
            place["place"]
            for place in _places(figure.name, stage)
            if _file_of(place) == path and place["what"] == what
        ]
        for stage in (before, now)
    ]
    first, second = lines if figure.increase > 0 else reversed(lines)
    return next((line for line in second if line not in first), (second or [path])[0])


def _layers(path: str, before: StageCost, now: StageCost) -> int:
    """Return how many layers a path stands for, where that is the same on both sides."""
    counts = [_layers_of(path, stage) for stage in (before, now)]
    return counts[0] if counts[0] == counts[1] else 0


def _layers_of(path: str, stage: StageCost) -> int:
    layers = stage["layers"]
    whole = [name for name in layers if path == name or path.startswith(f"{name}.")]
    return layers[max(whole, key=len)] if whole else 0


def modules_of(before: CostRecord | None, now: CostRecord) -> Iterator[ModuleCost]:
    """Yield what each module asks for, before and now, by its path."""
    costs_before = {} if before is None else _module_sums(before)
    costs_now = _module_sums(now)
    has_launches, has_memory = (
        all(name in stage for stage in now["stages"]) for name in ("launches", "memory")
    )
    for path in sorted({*costs_before, *costs_now}):
        was = None if before is None else costs_before.get(path, _Module())
        values = costs_now.get(path, _Module())
        yield ModuleCost(
            path=path,
            flops=values.flops,
            memory_traffic=values.traffic,
            launches=values.launches if has_launches else None,
            peak_bytes=values.peak if has_memory else None,
            flops_before=None if was is None else was.flops,
            memory_traffic_before=None if was is None else was.traffic,
            launches_before=was.launches if was is not None and has_launches else None,
            peak_bytes_before=was.peak if was is not None and has_memory else None,
        )


@dataclass(slots=True)
class _Module:
    flops: int = 0
    traffic: int = 0
    launches: int = 0
    peak: int = 0


def _module_sums(cost: CostRecord) -> dict[str, _Module]:
    sums: defaultdict[str, _Module] = defaultdict(_Module)
    for stage in cost["stages"]:
        for operator in stage["operators"]:
            module = sums[operator["path"]]
            module.flops += operator["flops"]
            module.traffic += traffic_of(operator)
            module.launches += operator["calls"]
        if "memory" in stage:
            for live in stage["memory"]["at_peak"]:
                sums[live["path"]].peak += live["bytes"]
    return dict(sums)
