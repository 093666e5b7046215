"""A report as headings, lists and tables, before it is rendered as text, Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Text in a grid, with the numbers of its footnotes."""

    text: str
    notes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A heading over names and values."""

    heading: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A heading over a table; every row is as long as ``headings``."""

    heading: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Mark, ...], ...]
    #: What holds for all cells.
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole report; ``footnotes`` are numbered from 1."""

    title: str
    environments: tuple[Facts, ...]
    grids: tuple[Grid, ...]
    footnotes: tuple[str, ...]
