"""Align the cells of a table in columns, for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_dlperf.report.printable import columns, padded

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return a line for each row, all of which have as many cells as the first.

    Two blanks are between two columns, and none at the end of a line. Columns of ``right``,
    counted from 0, are aligned at their right, as numbers are.
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            padded(cell, width, right=number in right)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
