"""Compares two costs of a step, figure by figure, and finds where the work changed.

A cost is exact: without an allowance, one operator more is more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_dlperf.core.cost import (
    COST_FIGURES,
    COSTS_LESS,
    COSTS_MORE,
    COSTS_SAME,
    CostChange,
    CostComparison,
    CostFigure,
    public_version,
)
from pytest_dlperf.core.finding import FigureValue, Finding, Weight, known_figures
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.wire_cost import CostRecord, StageCost
from pytest_dlperf.judge.cost_groups import group_changes, regrouped_calls
from pytest_dlperf.judge.cost_order import order_notes
from pytest_dlperf.judge.cost_places import changes_of, modules_of, sent_bytes, traffic_of

#: Dtypes from the slowest products to the fastest; others are as fast as the halves. FLOPs that
#: move to the right are no more, and to the left they are.
_WIDTHS: Final = (
    ("complex128", "float64"),
    ("complex64", "float32"),
    ("tf32",),
    ("bfloat16", "float16"),
    ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int8", "uint8"),
)
_HALF: Final = 3


def differing_conditions(before: CostRecord, now: CostRecord) -> str:
    """Return what forbids to compare two costs, ``before`` first; empty where nothing does."""
    versions = [
        f"{cost['framework']} {public_version(cost['framework_version'])}"
        for cost in (before, now)
    ]
    if versions[0] != versions[1]:
        return f"{versions[0]} then, {versions[1]} now"
    ranks = [[stage["rank"] for stage in cost["stages"]] for cost in (before, now)]
    if before["world_size"] != now["world_size"] or ranks[0] != ranks[1]:
        return f"{_traced(before)} then, {_traced(now)} now"
    return ""


def _traced(cost: CostRecord) -> str:
    ranks = ", ".join(str(stage["rank"]) for stage in cost["stages"])
    return f"ranks {ranks} of {cost['world_size']}"


def cost_comparison(
    before: CostRecord | None, now: CostRecord, gates: Sequence[Gate] = ()
) -> CostComparison:
    """Return both costs figure by figure; ``before`` is of the same ranks, or None.

    ``gates`` are the allowances of the case.
    """
    allowed = {gate.name: gate.tolerance or 0.0 for gate in gates}
    figures: list[CostFigure] = []
    changes: list[CostChange] = []
    for index, stage in enumerate(now["stages"]):
        earlier = None if before is None else before["stages"][index]
        for figure in _figures(earlier, stage, allowed):
            figures.append(figure)
            if earlier is not None and figure.increase:
                places = group_changes if figure.name == "regrouped" else changes_of
                changes += places(figure, earlier, stage)
    order = list(COST_FIGURES)
    figures.sort(key=lambda figure: order.index(figure.name))
    memories = [stage["memory"] for stage in now["stages"] if "memory" in stage]
    highest = max(memories, key=lambda memory: memory["peak_bytes"], default=None)
    return CostComparison(
        framework=now["framework"],
        framework_version=public_version(now["framework_version"]),
        world_size=now["world_size"],
        parameters=now.get("parameters"),
        figures=tuple(figures),
        changes=tuple(changes),
        modules=tuple(modules_of(before, now)),
        peak_by_kind={} if highest is None else dict(highest["by_kind"]),
        notes=(*now.get("notes", ()), *order_notes(before, now)),
        elapsed_s=now.get("elapsed_s", 0.0),
    )


def cost_findings(comparison: CostComparison, *, against: str) -> tuple[Finding, ...]:
    """Return what is more and less, in the order of ``COST_FIGURES``; or that all is the same.

    ``against`` names what it was compared with.
    """
    several = len({figure.rank for figure in comparison.figures}) > 1
    findings = [
        _finding(figure, comparison.changes, against=against, names_rank=several)
        for figure in comparison.figures
        if figure.increase
    ]
    if not any(finding.weight is not Weight.NOTE for finding in findings):
        figures: dict[str, FigureValue] = {"against": against, "is_allowed": bool(findings)}
        findings.insert(0, Finding(code=COSTS_SAME, weight=Weight.GREEN, figures=figures))
    return tuple(findings)


def _finding(
    figure: CostFigure, changes: Iterable[CostChange], *, against: str, names_rank: bool
) -> Finding:
    is_more = figure.increase > 0
    is_allowed = is_more and figure.share is not None and figure.share <= figure.allowed
    code, weight = _code(is_more=is_more, is_allowed=is_allowed)
    key = (figure.name, figure.dtype, figure.rank)
    change = next((c for c in changes if (c.name, c.dtype, c.rank) == key), None)
    place: dict[str, FigureValue | None] = (
        {}
        if change is None
        else {
            "path": change.path,
            "what": change.what,
            "phase": change.phase,
            "calls_before": change.calls_before,
            "calls_now": change.calls_now,
            "layers": change.layers or None,
        }
    )
    return Finding(
        code=code,
        weight=weight,
        metric=figure.name,
        figures=known_figures(
            {
                "against": against,
                "dtype": figure.dtype,
                "rank": figure.rank if names_rank else None,
                "before": figure.before,
                "now": figure.now,
                "increase": figure.increase,
                "change": figure.share,
                "allowed": figure.allowed or None,
                **place,
            }
        ),
    )


def _code(*, is_more: bool, is_allowed: bool) -> tuple[str, Weight]:
    if not is_more:
        return COSTS_LESS, Weight.BETTER
    return (COSTS_MORE, Weight.NOTE) if is_allowed else (COSTS_MORE, Weight.FACT)


def _figures(
    before: StageCost | None, now: StageCost, allowed: Mapping[str, float]
) -> Iterator[CostFigure]:
    """Yield the figures of one rank."""
    for name, by_dtype in _dtype_figures(now).items():
        earlier = None if before is None else _dtype_figures(before)[name]
        for dtype, increase in _increases_by_width(earlier, by_dtype).items():
            yield CostFigure(
                name=name,
                dtype=dtype,
                rank=now["rank"],
                now=by_dtype.get(dtype, 0),
                before=None if earlier is None else earlier.get(dtype, 0),
                increase=increase,
                share=None if not earlier else _share(increase, sum(earlier.values())),
                allowed=allowed.get(name, 0.0),
            )
    if before is not None:
        calls = regrouped_calls(before, now)
        yield CostFigure(
            name="regrouped",
            rank=now["rank"],
            now=calls,
            before=0,
            increase=calls,
            share=_share(calls, _plain_figures(before)["collectives"]),
            allowed=allowed.get("regrouped", 0.0),
        )
    plain = None if before is None else _plain_figures(before)
    for name, value in _plain_figures(now).items():
        was = None if plain is None else plain.get(name)
        increase = 0 if was is None else value - was
        yield CostFigure(
            name=name,
            rank=now["rank"],
            now=value,
            before=was,
            increase=increase,
            share=None if was is None else _share(increase, was),
            allowed=allowed.get(name, 0.0),
        )


def _share(increase: int, before: int) -> float | None:
    return increase / before if before else None


def _dtype_figures(stage: StageCost) -> dict[str, Mapping[str, int]]:
    return {"flops": stage["flops"], "parameters": stage.get("parameters", {})}


def _plain_figures(stage: StageCost) -> dict[str, int]:
    """Return the figures without a dtype, those that the framework's trace counts."""
    figures = {
        "collectives": sum(collective["calls"] for collective in stage["collectives"]),
        "collective_bytes": sum(map(sent_bytes, stage["collectives"])),
        "memory_traffic": sum(map(traffic_of, stage["operators"])),
    }
    if "host_waits" in stage:
        figures["host_waits"] = sum(place["count"] for place in stage["host_waits"])
    if "graph_breaks" in stage:
        figures["graph_breaks"] = sum(place["count"] for place in stage["graph_breaks"])
    if "recompilations" in stage:
        figures["recompilations"] = stage["recompilations"]
    if "memory" in stage:
        figures["peak_memory"] = stage["memory"]["peak_bytes"]
    if "launches" in stage:
        figures["launches"] = stage["launches"]
    return figures


def _increases_by_width(
    before: Mapping[str, int] | None, now: Mapping[str, int]
) -> dict[str, int]:
    """Return what each dtype has more, or less.

    What moves to a narrower dtype is less of the wider one, and no more of the narrower one.
    """
    dtypes = sorted({*now, *(before or {})}, key=lambda dtype: (_width(dtype), dtype))
    increases = dict.fromkeys(dtypes, 0)
    if before is None:
        return increases
    excess = 0
    for width in sorted({_width(dtype) for dtype in dtypes}):
        level = [dtype for dtype in dtypes if _width(dtype) == width]
        changes = {dtype: now.get(dtype, 0) - before.get(dtype, 0) for dtype in level}
        after = excess + sum(changes.values())
        added = max(0, after) - max(0, excess)
        removed = min(0, after) - min(0, excess)
        if added > 0:
            increases[max(level, key=lambda dtype: changes[dtype])] = added
        elif removed < 0:
            increases[min(level, key=lambda dtype: changes[dtype])] = removed
        excess = after
    return increases


def _width(dtype: str) -> int:
    return next((i for i, names in enumerate(_WIDTHS) if dtype in names), _HALF)
