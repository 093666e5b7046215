"""Verdicts in a page: their marks, counts and order, what failed, the sentence of a case."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import BAD, GOOD, NOT_JUDGED, Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.chart import Shape
from pytest_dlperf.report.page.markup import (
    Html,
    code,
    joined,
    name,
    paragraph,
    preformatted,
    text,
)


class Look(NamedTuple):
    """How a verdict looks: a class of the style sheet, a sign beside the word, a chart's mark."""

    style: str
    #: For those to whom colours say nothing; so is the shape.
    sign: str
    shape: Shape


_LOOKS: Final[dict[Verdict | None, Look]] = {
    Verdict.ERROR: Look("broken", "✕", "cross"),
    Verdict.REGRESSED: Look("bad", "▼", "fall"),
    Verdict.IMPROVED: Look("better", "▲", "rise"),
    Verdict.PASSED: Look("good", "✓", "dot"),
}
_OPEN: Final = Look("open", "◆", "diamond")
#: How log lines and tracebacks stand in a sentence.
_INDENT: Final = "    "


def look_of(verdict: str) -> Look:
    """Return how a verdict looks; one that a later version has is open."""
    return _LOOKS.get(_own(verdict), _OPEN)


def urgency(verdict: str) -> int:
    """Return what sorts the verdicts that someone must look at to the front, from 0 on."""
    order: dict[Verdict | None, int] = {
        Verdict.ERROR: 0,
        Verdict.REGRESSED: 1,
        **dict.fromkeys(GOOD, 3),
    }
    return order.get(_own(verdict), 2)


def _own(verdict: str) -> Verdict | None:
    """Return a verdict of this version; None for one of a later one."""
    try:
        return Verdict(verdict)
    except ValueError:
        return None


def importance(outcome: Outcome) -> tuple[int, str]:
    """Return what sorts the cases that someone must look at to the front."""
    return urgency(outcome.judgement.verdict), outcome.case.id


def badge(verdict: str, note: str = "") -> Html:
    """Return a verdict with its sign; ``note`` is what else is to be said of it."""
    look = look_of(verdict)
    sign = f'<span aria-hidden="true">{look.sign}</span>'
    return Html(f'<span class="verdict {look.style}">{sign} {text(verdict)}{text(note)}</span>')


def badge_of(outcome: Outcome) -> Html:
    """Return the verdict on a case, with what was stored, known, injected or taken."""
    note = f" ({outcome.update})" if outcome.update else ""
    if outcome.judgement.known is not None:
        note += f" [{outcome.judgement.known}]"
    if outcome.measurement is not None and outcome.measurement.inject:
        note += f" [injected {figures.percent(outcome.measurement.inject)}]"
    if outcome.taken_from:
        note += " [taken]"
    return badge(outcome.judgement.verdict, note)


def counts(outcomes: Sequence[Outcome]) -> dict[Verdict, int]:
    """Return how many cases have each verdict, the most important first, without zeros."""
    ordered = sorted(outcomes, key=importance)
    return {
        verdict: len(list(group))
        for verdict, group in itertools.groupby(
            sorted(ordered, key=lambda o: (importance(o)[0], o.judgement.verdict.value)),
            key=lambda o: o.judgement.verdict,
        )
    }


def sentence(reason: str) -> Html:
    """Return a judgement's sentence; lines of a log that it ends with stay as they are."""
    parts = []
    for of_log, lines in itertools.groupby(reason.splitlines(), lambda n: n.startswith(_INDENT)):
        block = "\n".join(lines)
        parts.append(preformatted(_outdented(block)) if of_log else paragraph(block))
    return joined(parts)


def _outdented(lines: str) -> str:
    return "\n".join(line.removeprefix(_INDENT) for line in lines.splitlines())


#: More sentences than anyone reads; the table has all of them.
_SENTENCES_MAX: Final = 40
#: Cases that are named beside one sentence.
_NAMED_MAX: Final = 12


def counted(outcomes: Sequence[Outcome]) -> Html:
    """Return how many cases have which verdict, and how many were not judged."""
    by_verdict = counts(outcomes)
    items = [f"<li>{badge(verdict)} <b>{count}</b></li>" for verdict, count in by_verdict.items()]
    not_judged = sum(count for verdict, count in by_verdict.items() if verdict in NOT_JUDGED)
    total = f"{len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}"
    sums = f"{total}, {not_judged} NOT JUDGED" if not_judged else total
    return joined([f'<p class="total">{sums}</p>', '<ul class="counts">', *items, "</ul>"])


def attention(outcomes: Sequence[Outcome], links: Mapping[int, str]) -> Html:
    """Return the sentences of what failed and of what was not judged, with what to type."""
    groups: dict[tuple[Verdict, str], list[int]] = {}
    for index, outcome in enumerate(outcomes):
        judgement = outcome.judgement
        if (judgement.verdict in BAD or judgement.verdict in NOT_JUDGED) and not outcome.update:
            groups.setdefault((judgement.verdict, judgement.reason), []).append(index)
    parts: list[str] = []
    for heading, chosen in (("Failed", BAD), ("NOT JUDGED", NOT_JUDGED)):
        of_kind = [(key, indexes) for key, indexes in groups.items() if key[0] in chosen]
        if not of_kind:
            continue
        parts.append(f"<h2>{heading}</h2>")
        for (verdict, reason), indexes in of_kind[:_SENTENCES_MAX]:
            parts.append(_reason_once(verdict, reason, indexes, outcomes, links))
        left = len(of_kind) - _SENTENCES_MAX
        if left > 0:
            words = f"{left} more sentences are shown with their cases."
            parts.append(paragraph(words, kind="quiet"))
    return joined(parts)


def command_of(outcomes: Sequence[Outcome]) -> Html:
    """Return the commands that run these cases again; nothing where no test ran them."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        if outcome.command:
            program, node, *options = shlex.split(outcome.command)
            nodes.setdefault((program, *options), []).append(node)
    return joined(
        f'<p class="again">Run again: {code(shlex.join([program, *some, *options]))}</p>'
        for (program, *options), some in nodes.items()
    )


def _reason_once(
    verdict: Verdict,
    reason: str,
    indexes: Sequence[int],
    outcomes: Sequence[Outcome],
    links: Mapping[int, str],
) -> Html:
    named = [_linked(outcomes[index].case.id, links.get(index, "")) for index in indexes]
    unnamed = len(named) - _NAMED_MAX
    cases = ", ".join(named[:_NAMED_MAX]) + (f", and {unnamed} more" if unnamed > 0 else "")
    return joined(
        [
            f'<div class="sentence {_side(verdict)}"><p>{badge(verdict)} {cases}</p>',
            sentence(reason),
            command_of([outcomes[index] for index in indexes[:_NAMED_MAX]]),
            "</div>",
        ]
    )


def _side(verdict: Verdict) -> str:
    return "failed" if verdict in BAD else "open"


def _linked(case_id: str, link: str) -> Html:
    shown = name(case_id)
    return Html(f'<a href="#{text(link)}">{shown}</a>') if link else shown
