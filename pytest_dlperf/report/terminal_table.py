"""The table of the terminal's summary: a line a case where it fits, else two."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_dlperf.report import figures
from pytest_dlperf.report.printable import columns, padded, printable
from pytest_dlperf.report.sort_order import Standing, standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.core.run import RunSummary

_CASE: Final = "case"
_VERDICT: Final = "verdict"
_COLUMNS: Final = (
    "rate",
    "baseline",
    "change",
    "90 % interval",
    "sees",
    "speedup",
    "memory",
    "runs",
)
#: Columns that a narrow terminal does without, the first to go first.
_LEAST: Final = ("memory", "speedup", "runs", "sees", "90 % interval", "baseline")
_COLOURS: Final = {Standing.FAILED: "red", Standing.APART: "yellow", Standing.PASSED: "green"}
_GAP: Final = "  "


class Line(NamedTuple):
    """A line of the summary; ``tail`` is its end, in a colour of pytest's terminal."""

    text: str
    tail: str = ""
    colour: str = ""

    @property
    def plain(self) -> str:
        """The line without colour."""
        return f"{self.text}{self.tail}".rstrip()


def table(outcomes: Sequence[Outcome], width: int, *, verbose: bool = False) -> list[Line]:
    """Return the table of ``outcomes`` in ``width`` columns, as far as their ids allow.

    Where a line is too long, columns are left out, and a last line says which; where even the
    rate, the change and the verdict do not fit beside the id, that has a line of its own.
    ``verbose`` leaves columns out last, and adds the runs.
    """
    rows = [_cells(outcome) for outcome in outcomes]
    widths = {
        name: max(columns(row[name]) for row in [*rows, {name: name}])
        for name in (_CASE, *_COLUMNS, _VERDICT)
    }
    beside = _fitting(widths, width - widths[_CASE], fewest=len(_COLUMNS) if verbose else 2)
    kept = _fitting(widths, width, fewest=0) if beside is None else beside
    assert kept is not None
    lines = [
        Line(_figures({name: name for name in widths}, kept, widths, _CASE, beside), _VERDICT)
    ]
    for outcome, row in zip(outcomes, rows, strict=True):
        if beside is None:
            lines.append(Line(row[_CASE]))
        colour = _COLOURS[standing(outcome)]
        text = _figures(row, kept, widths, row[_CASE], beside)
        lines.append(Line(text, row[_VERDICT], colour))
        lines += _runs(outcome) if verbose else []
    left_out = [name for name in _COLUMNS if name not in kept]
    if left_out:
        text = f"(a wider terminal shows {', '.join(left_out)} as well)"
        lines += [Line(part) for part in textwrap.wrap(text, width)]
    return lines


def _fitting(widths: Mapping[str, int], width: int, *, fewest: int) -> list[str] | None:
    """Return the columns that fit with the verdict; None if there are less than ``fewest``."""
    kept = list(_COLUMNS)
    for name in ("", *_LEAST):
        kept = [one for one in kept if one != name]
        if sum(len(_GAP) + widths[one] for one in (*kept, _VERDICT)) <= width:
            return kept if len(kept) >= fewest else None
    return kept if not fewest else None


def _figures(
    row: Mapping[str, str],
    kept: Sequence[str],
    widths: Mapping[str, int],
    case_id: str,
    beside: Sequence[str] | None,
) -> str:
    """Return a line up to its verdict; without the id where that has a line of its own."""
    figures_ = [padded(row[name], widths[name], right=True) for name in kept]
    first = "" if beside is None else padded(case_id, widths[_CASE])
    return _GAP.join([first, *figures_, ""])


def _cells(outcome: Outcome) -> dict[str, str]:
    measurement, judgement = outcome.measurement, outcome.judgement
    verdict = str(judgement.verdict) + (f" ({outcome.update})" if outcome.update else "")
    if judgement.known is not None:
        verdict += f" [{judgement.known}]"
    cells = {_CASE: printable(outcome.case.id), _VERDICT: verdict}
    if measurement is None:
        return cells | dict.fromkeys(_COLUMNS, figures.ABSENT)
    runs = str(len(measurement.runs))
    if measurement.disturbed_runs:
        runs += f" (+{len(measurement.disturbed_runs)} disturbed)"
    if measurement.inject:
        cells[_VERDICT] += f" [injected {figures.percent(measurement.inject)}]"
    comparison = judgement.throughput
    values = (
        f"{figures.rate(outcome.judged_throughput)} {printable(measurement.unit)}/s",
        figures.rate(comparison.before),
        figures.percent(comparison.change),
        figures.interval(comparison),
        figures.percent(comparison.sees, sign=False),
        figures.ABSENT if measurement.speedup is None else f"{measurement.speedup:.2f}",
        figures.memory(measurement.peak_memory_bytes),
        runs,
    )
    return cells | dict(zip(_COLUMNS, values, strict=True))


def _runs(outcome: Outcome) -> list[Line]:
    """Return a line for each arm's runs, and one for each run that does not count."""
    lines = []
    other = outcome.against.measurement if outcome.against else None
    for name, measurement in (("", outcome.measurement), ("other arm's ", other)):
        if measurement is None:
            continue
        rates = " ".join(figures.rate(rate) for rate in measurement.throughputs)
        lines.append(Line(f"  {name}runs: {rates} {printable(measurement.unit)}/s"))
        lines += [_disturbed(name, run) for run in measurement.disturbed_runs]
    return lines


def _disturbed(name: str, run: RunSummary) -> Line:
    return Line(
        f"  {name}run that does not count: {figures.rate(run.throughput)}; {run.disturbed}"
    )
