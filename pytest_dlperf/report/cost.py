"""The cost of a step as tables of words: its figures, and what it holds at the peak of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.cost import CostComparison, CostFigure, PredictedTime, meaning_of
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import scaled, signed
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.printable import one_line

HEADINGS: Final = ("figure", "before", "now", "change")
#: In the columns of a table of cases.
_COLUMNS: Final = ("flops", "launches", "collectives", "peak_memory")
#: In the line of a cost that is compared with nothing.
_IN_BRIEF: Final = ("flops", "launches", "collectives", "collective_bytes", "peak_memory")


def figure_row(figure: CostFigure) -> tuple[str, ...]:
    """Return the cells of a figure."""
    unit = meaning_of(figure.name).unit
    before = figures.ABSENT if figure.before is None else scaled(figure.before, unit)
    share = figures.ABSENT
    if figure.before is not None and figure.increase:
        share = f"{figure.increase:+,}" if figure.share is None else signed(figure.share)
        if figure.share is not None and abs(figure.share) < 0.0005:
            share = f"{figure.increase:+,}"
    return words_of(figure), before, scaled(figure.now, unit), share


def words_of(figure: CostFigure) -> str:
    """Return how a figure is called: ``FLOPs in bfloat16``; of rank 0 without its rank."""
    dtype = f" in {figure.dtype}" if figure.dtype else ""
    rank = f" of rank {figure.rank}" if figure.rank else ""
    return f"{meaning_of(figure.name).words}{dtype}{rank}"


def shown_figures(cost: CostComparison, *, every: bool) -> list[CostFigure]:
    """Return the figures that changed; with ``every`` all but those that are 0 on both sides."""
    if every:
        return [figure for figure in cost.figures if figure.now or figure.before]
    return [figure for figure in cost.figures if figure.increase]


def column_cells(cost: CostComparison) -> tuple[str, str, str, str]:
    """Return what the first rank asks for: FLOPs of all dtypes, launches, collectives, memory.

    What the framework's trace does not count is absent.
    """
    first = cost.figures[0].rank
    # A step without products has FLOPs of no dtype
    sums = {"flops": 0}
    for figure in cost.figures:
        if figure.name in _COLUMNS and figure.rank == first:
            sums[figure.name] = sums.get(figure.name, 0) + figure.now
    flops, launches, collectives, memory = (
        scaled(sums[name], meaning_of(name).unit) if name in sums else figures.ABSENT
        for name in _COLUMNS
    )
    return flops, launches, collectives, memory


def in_brief(cost: CostComparison) -> str:
    """Return a cost in a line, that of the first rank."""
    first = cost.figures[0].rank
    words = []
    for figure in cost.figures:
        if figure.name in _IN_BRIEF and figure.now and figure.rank == first:
            meaning = meaning_of(figure.name)
            amount = scaled(figure.now, meaning.unit)
            name = f"{amount} {words_of(figure)}"
            if meaning.unit == "FLOP":
                name = f"{amount} in {figure.dtype}"
            words.append(name)
    kinds = ", ".join(
        f"{kind} {scaled(size, 'bytes')}"
        for kind, size in sorted(cost.peak_by_kind.items(), key=lambda item: -item[1])
        if size
    )
    return ", ".join(words) + (f" ({kinds})" if kinds else "")


def predicted_words(predicted: PredictedTime) -> str:
    """Return the predicted time of a step, and what it is of, in a line."""
    if predicted.step_ms is None:
        return f"no time is predicted: {predicted.problem}"
    before = "" if predicted.before_ms is None else f", {predicted.before_ms:.3g} ms before"
    parts = [f"products {predicted.products_ms:.3g} ms", f"memory {predicted.memory_ms:.3g} ms"]
    if predicted.collectives_ms:
        parts.append(
            f"collectives {predicted.collectives_ms:.3g} ms, of which {predicted.exposed_ms:.3g} "
            "ms hide behind nothing"
        )
    return (
        f"{predicted.step_ms:.3g} ms a step on {predicted.device} by its data sheet, not judged"
        f"{before} ({', '.join(parts)})"
    )


def error_words(predicted: PredictedTime) -> str:
    """Return how far such predictions are from measured baselines of the device."""
    device, errors = predicted.device, predicted.errors
    unchecked = ""
    if predicted.unchecked:
        unchecked = f"; {predicted.unchecked} more have no stored cost"
    if not errors:
        return f"how wrong this is on {device}, no measured baseline shows{unchecked}"
    shares = sorted(error.share for error in errors)
    spread = signed(shares[0])
    if len(shares) > 1:
        spread = f"{signed(shares[0])} to {signed(shares[-1])}"
    cases = "one measured baseline" if len(errors) == 1 else f"{len(errors)} measured baselines"
    return f"of {cases} of {device} the same prediction is wrong by {spread}{unchecked}"


def terminal_lines(outcomes: Sequence[Outcome], *, verbose: bool) -> list[str]:
    """Return the table of what changed of each cost, or the cost in a line where nothing did.

    ``verbose``: all figures.
    """
    lines: list[str] = []
    for outcome in outcomes:
        cost = outcome.cost
        if cost is None:
            continue
        rows = shown_figures(cost, every=verbose) if cost.has_before else []
        if rows:
            lines += ["", f"{one_line(outcome.case.id)}: its cost"]
            cells = [HEADINGS, *map(figure_row, rows)]
            lines += [f"  {line}" for line in aligned(cells, right=range(1, len(HEADINGS)))]
        else:
            lines.append(one_line(f"cost: {outcome.case.id}: {in_brief(cost)}"))
        if cost.predicted is not None:
            words = f"{predicted_words(cost.predicted)}; {error_words(cost.predicted)}"
            lines.append(one_line(f"predicted: {outcome.case.id}: {words}"))
    # One note may be of every case
    notes = [
        note for outcome in outcomes if outcome.cost is not None for note in outcome.cost.notes
    ]
    return lines + [one_line(f"note: {note}") for note in dict.fromkeys(notes)]
