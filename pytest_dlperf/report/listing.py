"""The text of ``--dlperf-list``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.report import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADINGS: Final = ("case", "baseline", "published", "accuracy", "time to train", "runs here")
#: Why no run of this tool can check a published accuracy or time.
_NEEDS: Final = "needs full training"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRow:
    """One case: whether it runs here, its baseline, and the published number."""

    case_id: str
    #: ``yes``, or why not.
    runs_here: str
    baseline: str
    published: str = figures.ABSENT
    #: As published: a short run cannot tell them.
    accuracy_percent: float | None = None
    time_to_train_s: float | None = None
    #: The slowdown up to which the marker lets it pass; None where it does not say.
    tolerance: float | None = None
    #: False for a stored number that no test declares.
    declared: bool = True


def to_json(rows: Sequence[ListRow]) -> dict[str, Any]:
    """Return the rows in plain JSON types."""
    return {
        "format": 1,
        "cases": [
            {
                "id": row.case_id,
                "declared": row.declared,
                "runs_here": row.runs_here,
                "baseline": row.baseline,
                "published": row.published,
                "accuracy_percent": row.accuracy_percent,
                "time_to_train_s": row.time_to_train_s,
                "tolerance": row.tolerance,
            }
            for row in rows
        ],
    }


def render(rows: Sequence[ListRow]) -> list[str]:
    """Return the lines of a table; the reason why a case does not run stands last."""
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADINGS) - 1)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def _cells(row: ListRow) -> tuple[str, ...]:
    accuracy, seconds = row.accuracy_percent, row.time_to_train_s
    return (
        row.case_id,
        row.baseline,
        row.published,
        figures.ABSENT if accuracy is None else f"{figures.accuracy(accuracy)}, {_NEEDS}",
        figures.ABSENT if seconds is None else f"{figures.exact(seconds)} s, {_NEEDS}",
        row.runs_here,
    )
