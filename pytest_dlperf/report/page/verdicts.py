"""Verdicts in a page: their marks, their order, and the sentence of a case."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import NOT_JUDGED, Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, paragraph, preformatted, text

#: A sign beside the word, for those to whom colours say nothing.
_SIGNS: Final = {
    Verdict.ERROR: "✕",
    Verdict.REGRESSED: "▼",
    Verdict.IMPROVED: "▲",
    Verdict.PASSED: "✓",
}
_KINDS: Final = {
    Verdict.ERROR: "broken",
    Verdict.REGRESSED: "bad",
    Verdict.IMPROVED: "better",
    Verdict.PASSED: "good",
}
_OPEN_SIGN: Final = "○"
#: How log lines and tracebacks stand in a sentence.
_INDENT: Final = "    "


def importance(outcome: Outcome) -> tuple[int, str]:
    """Return what sorts the cases that someone must look at to the front."""
    verdict = outcome.judgement.verdict
    order = (Verdict.ERROR, Verdict.REGRESSED)
    place = order.index(verdict) if verdict in order else 2 if verdict in NOT_JUDGED else 3
    return place, outcome.case.id


def badge(verdict: Verdict, beside: str = "") -> Html:
    """Return a verdict with its sign; ``beside`` is what else is to be said of it."""
    kind = _KINDS.get(verdict, "open")
    sign = f'<span aria-hidden="true">{_SIGNS.get(verdict, _OPEN_SIGN)}</span>'
    return Html(f'<span class="verdict {kind}">{sign} {text(verdict)}{text(beside)}</span>')


def badge_of(outcome: Outcome) -> Html:
    """Return the verdict on a case, with what was stored, known, injected or taken."""
    beside = f" ({outcome.update})" if outcome.update else ""
    if outcome.judgement.known is not None:
        beside += f" [{outcome.judgement.known}]"
    if outcome.measurement is not None and outcome.measurement.inject:
        beside += f" [injected {figures.percent(outcome.measurement.inject)}]"
    if outcome.taken_from:
        beside += " [taken]"
    return badge(outcome.judgement.verdict, beside)


def counts(outcomes: Sequence[Outcome]) -> dict[Verdict, int]:
    """Return how many cases have each verdict, the most important first, without zeros."""
    found = sorted(outcomes, key=importance)
    return {
        verdict: len(list(group))
        for verdict, group in itertools.groupby(
            sorted(found, key=lambda o: (importance(o)[0], o.judgement.verdict.value)),
            key=lambda o: o.judgement.verdict,
        )
    }


def sentence(reason: str) -> Html:
    """Return a judgement's sentence; lines of a log that it ends with stay as they are."""
    parts = []
    for of_log, lines in itertools.groupby(reason.splitlines(), lambda n: n.startswith(_INDENT)):
        told = "\n".join(lines)
        parts.append(preformatted(_outdented(told)) if of_log else paragraph(told))
    return joined(parts)


def _outdented(lines: str) -> str:
    return "\n".join(line.removeprefix(_INDENT) for line in lines.splitlines())
