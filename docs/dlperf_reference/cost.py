"""The figures of a step's cost, from the table that the package has of them."""

from __future__ import annotations

from dlperf_reference.markdown import code, table
from pytest_dlperf.core.cost import COST_FIGURES


def text() -> str:
    """Return the table of the figures, in the order in which a sentence names them."""
    rows = [(code(name), meaning.counts) for name, meaning in COST_FIGURES.items()]
    return table(("figure", "counts"), rows)
