"""The text of ``--dlperf-list``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def render(rows: Sequence[ListRow]) -> list[str]:
    """Return the lines of a table; the reason why a case does not run stands last."""
    headings = ("case", "baseline", "published", "runs here")
    cells = [headings, *((r.case_id, r.baseline, r.published, r.runs_here) for r in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
        for row in cells
    ]
