"""The part of a case's section about the cost of a step: its figures, and both by module."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_dlperf.core.cost import CostComparison, ModuleCost, PredictedTime, meaning_of
from pytest_dlperf.core.outcome import ModuleTime
from pytest_dlperf.core.quantity import scaled, signed
from pytest_dlperf.report.cost import (
    HEADINGS,
    error_words,
    figure_row,
    predicted_words,
    shown_figures,
)
from pytest_dlperf.report.page.icicle import icicle
from pytest_dlperf.report.page.markup import Html, joined, paragraph
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

#: Modules in the table: those with the most work.
_ROWS = 40


def cost_section(cost: CostComparison | None) -> Html:
    """Return what a step asks for, before and now; nothing where no step was traced."""
    if cost is None:
        return Html("")
    parameters = "" if cost.parameters is None else f", {cost.parameters:,} parameters"
    what = (
        f"A step of {cost.framework} {cost.framework_version} on {cost.world_size} devices"
        f"{parameters}: counted, not timed."
    )
    return joined(
        [
            "<h3>Cost of a step</h3>",
            paragraph(what),
            *(paragraph(f"note: {note}", kind="quiet") for note in cost.notes),
            _predicted(cost.predicted),
            _figures(cost),
            _changes(cost),
            _drawn(cost, "FLOPs", lambda module: (module.flops, module.flops_before), "FLOP"),
            _drawn(
                cost,
                "memory at its peak",
                lambda module: (module.peak_bytes, module.peak_bytes_before),
                "bytes",
            ),
            _modules(cost.modules),
        ]
    )


def _predicted(predicted: PredictedTime | None) -> Html:
    """Return the predicted time, and how wrong it is; nothing where no device was named."""
    if predicted is None:
        return Html("")
    rows = [
        TableRow(
            cells=(
                cell(error.case_id),
                cell(error.machine_class),
                number(f"{error.predicted_ms:.3g} ms", error.predicted_ms),
                number(f"{error.measured_ms:.3g} ms", error.measured_ms),
                number(signed(error.share), error.share),
            )
        )
        for error in predicted.errors
    ]
    columns = [
        *(Column(heading=heading) for heading in ("case", "machine class")),
        *(Column(heading=h, kind="number") for h in ("predicted", "measured", "error")),
    ]
    title = f"Measured baselines of {predicted.device}"
    errors = table(title, columns, rows) if rows else Html("")
    return joined(
        [
            paragraph(f"Predicted: {predicted_words(predicted)}."),
            paragraph(f"{error_words(predicted)}.", kind="quiet"),
            errors,
        ]
    )


def _figures(cost: CostComparison) -> Html:
    rows = []
    for figure in shown_figures(cost, every=True):
        name, before, now, change = figure_row(figure)
        rows.append(
            TableRow(
                cells=(
                    cell(name),
                    number(before, figure.before),
                    number(now, figure.now),
                    number(change, figure.share),
                    cell(meaning_of(figure.name).counts),
                )
            )
        )
    columns = [
        Column(heading=HEADINGS[0]),
        *(Column(heading=heading, kind="number") for heading in HEADINGS[1:]),
        Column(heading="what it counts"),
    ]
    return table("Figures of one rank and step", columns, rows)


def _changes(cost: CostComparison) -> Html:
    """Return where the work changed; nothing where it did not."""
    if not cost.changes:
        return Html("")
    rows = [
        TableRow(
            cells=(
                cell(f"{meaning_of(change.name).words} {change.dtype}".rstrip()),
                cell(change.path or "outside of all modules"),
                cell(f"{change.what} ({change.phase})" if change.phase else change.what),
                number(str(change.calls_before), change.calls_before),
                number(str(change.calls_now), change.calls_now),
                number(_difference(change.name, change.increase), change.increase),
            )
        )
        for change in cost.changes
    ]
    columns = [
        *(Column(heading=heading) for heading in ("figure", "module", "by what")),
        *(Column(heading=h, kind="number") for h in ("calls before", "calls now", "change")),
    ]
    return table("Where the work changed, the most first", columns, rows)


def _difference(name: str, increase: int) -> str:
    sign = "+" if increase > 0 else "-"
    return f"{sign}{scaled(abs(increase), meaning_of(name).unit)}"


def _drawn(
    cost: CostComparison,
    what: str,
    values: Callable[[ModuleCost], tuple[int | None, int | None]],
    unit: str,
) -> Html:
    """Return an icicle of the modules, now, coloured by what was before.

    Nothing where the framework's trace does not count it.
    """
    modules = []
    for module in cost.modules:
        now, before = values(module)
        if now is None:
            return Html("")
        modules.append(
            ModuleTime(
                path=module.path,
                before_ms=None if before is None else float(before),
                after_ms=float(now),
            )
        )
    return icicle(modules, what=what, shown=lambda value: scaled(round(value), unit))


def _modules(modules: Sequence[ModuleCost]) -> Html:
    most = sorted(modules, key=lambda module: (-module.flops, -module.memory_traffic))[:_ROWS]
    kinds: tuple[tuple[str, str, str], ...] = (
        ("FLOPs", "flops", "FLOP"),
        ("memory traffic", "memory_traffic", "bytes"),
        ("launches", "launches", ""),
        ("at the peak", "peak_bytes", "bytes"),
    )
    kinds = tuple(
        kind for kind in kinds if all(getattr(module, kind[1]) is not None for module in most)
    )
    rows = []
    for module in most:
        cells = [cell(module.path or "outside of all modules")]
        for _, name, unit in kinds:
            now, before = getattr(module, name), getattr(module, f"{name}_before")
            text = scaled(now, unit)
            if before is not None and before != now:
                text = f"{scaled(before, unit)} to {text}"
            cells.append(number(text, now))
        rows.append(TableRow(cells=tuple(cells)))
    columns = [
        Column(heading="module"),
        *(Column(heading=heading, kind="number") for heading, _, _ in kinds),
    ]
    return table("By module, without those within it, before to now", columns, rows)
