"""Judgements that differ from the golden file, and why the new ones are right.

A rule names judgements that are meant to differ, and the fields that may. It is deleted when the
file is recorded again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.golden.golden_file import Record
from tests.golden.roads import Output


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A difference that is right."""

    name: str
    #: A sentence.
    why: str
    #: Whether it is about a record, by what was expected, and what is said now.
    applies: Callable[[Record, Output, Output], bool]
    #: What may differ: ``reason``, ``throughput``, ``throughput.sees``, ``metrics.anchor`` ...
    fields: frozenset[str]


DIFFERENCES: Final[tuple[Difference, ...]] = ()
