"""Render a history as CSV: a line for each outcome, for spreadsheets and other tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

from pytest_dlperf.core.findings import Series
from pytest_dlperf.report.printable import printable

_OF_SERIES: Final = ("case_id", "machine_class", "node", "unit")


_OF_POINT: Final = (
    "number",
    "time",
    "commit",
    "dirty",
    "verdict",
    "throughput",
    "change",
    "speedup",
    "peak_memory_bytes",
    "runs",
    "mode",
    "left_out",
    "against",
)


#: Begin a formula in a spreadsheet, which text from outside must not become.
_FORMULA: Final = ("=", "+", "-", "@")


def render(series: Iterable[Series]) -> str:
    """Return the text of a CSV file with a heading; what was not measured is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_OF_SERIES, "conditions", *_OF_POINT, "software_changes"))
    for one in series:
        of_series = [_plain(getattr(one, name)) for name in _OF_SERIES]
        conditions = "; ".join(f"{name}={value}" for name, value in one.conditions.items())
        for point in one.points:
            cells = [getattr(point, name) for name in _OF_POINT]
            told = "; ".join(point.software_changes)
            writer.writerow([*of_series, _plain(conditions), *map(_plain, cells), _plain(told)])
    return text.getvalue()


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value).replace("\n", "\\n").replace("\t", "\\t")
    return f"'{text}" if text.startswith(_FORMULA) else text
