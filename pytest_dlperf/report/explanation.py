"""The tables of an explanation: the parts of a step and the operators that changed, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.outcome import Explanation, OperatorChange, Outcome, PartChange
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.printable import one_line

#: Of the first column the heading is that of the rows: ``part`` or ``operator``.
_FIGURES: Final = ("before ms", "after ms", "difference ms", "share")
#: Operators that the terminal shows without ``-v``.
_OPERATORS: Final = 5
#: Ranks whose waits are shown.
_RANKS: Final = 16
_GAP: Final = "  "


def headings(kind: str) -> tuple[str, ...]:
    """Return the headings of a table of ``kind``: ``part`` or ``operator``."""
    return (kind, *(_FIGURES if kind == "part" else (*_FIGURES[:3], "calls a step")))


def part_row(change: PartChange) -> tuple[str, ...]:
    """Return the cells of a part."""
    return (
        change.part + _star(change),
        *_times(change),
        figures.percent(change.share, sign=False),
    )


def operator_row(change: OperatorChange) -> tuple[str, ...]:
    """Return the cells of an operator; added and removed ones are marked."""
    word = "added: " if change.is_added else "removed: " if change.is_removed else ""
    where = f"{change.path}: " if change.path else ""
    calls = f"{change.after_calls:g}"
    if change.before_calls is not None and change.before_calls != change.after_calls:
        calls = f"{change.before_calls:g} to {calls}"
    return (f"{word}{where}{change.operator}{_star(change)}", *_times(change), calls)


def remark(explanation: Explanation) -> str:
    """Return what the tables are of, and what their marks mean."""
    words = f"a profiled step of rank {explanation.rank}"
    if explanation.before_ms is not None and explanation.after_ms is not None:
        words += f": {_ms(explanation.before_ms)} to {_ms(explanation.after_ms)} ms"
    words += "; launches of it are not judged"
    named = [part.named for part in explanation.parts]
    named += [operator.named for operator in explanation.operators]
    if explanation.before_ms is not None and not all(named):
        words += "; * within the spread of equal profiles"
    return words


def further_lines(explanation: Explanation) -> list[str]:
    """Return what is said of launches, of kernels, and of the ranks that wait."""
    lines = []
    if explanation.after_launches is not None:
        before = (
            "" if explanation.before_launches is None else f"{explanation.before_launches:g} to "
        )
        lines.append(f"kernels and copies a step: {before}{explanation.after_launches:g}")
    for change in explanation.operators:
        if change.named and change.before_kernels != change.after_kernels:
            old, new = (
                ", ".join(names) or "none"
                for names in (change.before_kernels, change.after_kernels)
            )
            where = f"{change.path}: " if change.path else ""
            lines.append(f"kernels of {where}{change.operator}: {old}; now {new}")
    if len(explanation.ranks) > 1:
        waits = ", ".join(
            f"rank {rank.rank} {'' if rank.before_ms is None else f'{_ms(rank.before_ms)} to '}"
            f"{_ms(rank.after_ms)} ms"
            for rank in explanation.ranks[:_RANKS]
        )
        least = min(explanation.ranks, key=lambda rank: rank.after_ms)
        lines.append(
            f"exposed communication by rank: {waits}; the others wait for rank {least.rank}"
        )
    return lines


def further_tables(explanation: Explanation) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return tables of the memory at the peak, and of host stacks, each with its headings."""
    tables = []
    if explanation.memory:
        peak = figures.memory(explanation.after_peak_bytes)
        if explanation.before_peak_bytes is not None:
            peak = f"{figures.memory(explanation.before_peak_bytes)} to {peak}"
        rows: list[tuple[str, ...]] = [("allocated at", "before", "after", "allocations")]
        for place in explanation.memory:
            star = "" if place.named or place.before_bytes is None else " *"
            count = f"{place.after_count:g}"
            if place.before_count is not None and place.before_count != place.after_count:
                count = f"{place.before_count:g} to {count}"
            sizes = (figures.memory(place.before_bytes), figures.memory(place.after_bytes))
            rows.append((f"{place.place}{star}", *sizes, count))
        tables.append((f"Allocated at the peak of three steps: {peak}", rows))
    if explanation.stacks:
        rows = [("host stack", "before ms", "after ms")]
        rows += [
            (stack.frames.replace(";", " > "), _ms(stack.before_ms), _ms(stack.after_ms))
            for stack in explanation.stacks
        ]
        tables.append(("Where the host's program is, sampled by py-spy", rows))
    return tables


def terminal_lines(outcomes: Sequence[Outcome], *, verbose: bool) -> list[str]:
    """Return the tables of each outcome that has them, with its note."""
    lines: list[str] = []
    for outcome in outcomes:
        explanation = outcome.explanation
        if explanation is None:
            continue
        if explanation.parts:
            lines += ["", f"{one_line(outcome.case.id)}: {remark(explanation)}"]
            lines += _grid([headings("part"), *map(part_row, explanation.parts)])
            rows = explanation.operators if verbose else explanation.operators[:_OPERATORS]
            if rows:
                lines += _grid([headings("operator"), *map(operator_row, rows)])
            lines += [f"  {one_line(line)}" for line in further_lines(explanation)]
        for title, cells in further_tables(explanation):
            lines.append(f"  {title}")
            lines += _grid(cells if verbose else [*cells[: 1 + _OPERATORS]])
        if explanation.note:
            lines.append(one_line(f"note: {outcome.case.id}: {explanation.note}"))
        lines += [f"  trace: {one_line(trace)}" for trace in explanation.traces]
    return lines


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[one_line(cell) for cell in row] for row in rows]
    return [f"  {line}" for line in aligned(cells, right=range(1, len(cells[0])))]


def _star(change: PartChange | OperatorChange) -> str:
    return "" if change.named or change.difference_ms is None else " *"


def _times(change: PartChange | OperatorChange) -> tuple[str, str, str]:
    difference = change.difference_ms
    shown = figures.ABSENT if difference is None else f"{difference:+.2f}"
    return _ms(change.before_ms), _ms(change.after_ms), shown


def _ms(value: float | None) -> str:
    return figures.ABSENT if value is None else f"{value:.2f}"
