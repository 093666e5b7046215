"""The text of ``--dlperf-list``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_dlperf.report import figures

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRow:
    """One case: whether it runs here, its baseline, and the published number."""

    case_id: str
    #: ``yes``, or why not.
    runs_here: str
    baseline: str
    published: str = figures.ABSENT
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
            }
            for row in rows
        ],
    }


def render(rows: Sequence[ListRow]) -> list[str]:
    """Return the lines of a table; the reason why a case does not run stands last."""
    headings = ("case", "baseline", "published", "runs here")
    cells = [headings, *((r.case_id, r.baseline, r.published, r.runs_here) for r in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
        for row in cells
    ]
