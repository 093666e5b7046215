"""Codes of findings, from the table that the package has of them."""

from __future__ import annotations

from typing import Final

from dlperf_reference.markdown import code, table
from pytest_dlperf.core.finding import Weight
from pytest_dlperf.core.finding_codes import CODES, COMPARED, MAY_FAIL, CodeMeaning
from pytest_dlperf.judge.decide import TABLE

_HEADINGS: Final = ("code", "weight and verdict", "meaning", "what to do", "figures")


def text() -> str:
    """Return the table of the codes of findings, those that may fail a case first."""
    ordered = sorted(CODES, key=lambda name: name not in MAY_FAIL)
    return table(_HEADINGS, [_row(name, CODES[name]) for name in ordered])


def _row(name: str, meaning: CodeMeaning) -> tuple[str, ...]:
    figures = [*(COMPARED if meaning.is_compared else ()), *meaning.figures]
    return (
        code(name),
        " or ".join(_weight(weight) for weight in meaning.weights),
        meaning.meaning + (" (`code:metric`)" if meaning.has_metric else ""),
        meaning.remedy,
        ", ".join(map(code, figures)),
    )


def _weight(weight: Weight) -> str:
    verdict = TABLE.get(weight)
    return str(weight) if verdict is None else f"{weight}: {code(verdict.value)}"
