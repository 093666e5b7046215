"""The top of a session's page: verdicts counted, what failed, what was not judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import BAD, NOT_JUDGED, Verdict
from pytest_dlperf.report.page.markup import Html, code, joined, name, paragraph, text
from pytest_dlperf.report.page.verdicts import badge, counts, sentence

#: More sentences than anyone reads; the table has all of them.
_SENTENCES_MAX: Final = 40
#: Cases that are named beside one sentence.
_NAMED_MAX: Final = 12


def counted(outcomes: Sequence[Outcome]) -> Html:
    """Return how many cases have which verdict, and how many were not judged."""
    found = counts(outcomes)
    items = [f"<li>{badge(verdict)} <b>{count}</b></li>" for verdict, count in found.items()]
    not_judged = sum(count for verdict, count in found.items() if verdict in NOT_JUDGED)
    total = f"{len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}"
    told = f"{total}, {not_judged} NOT JUDGED" if not_judged else total
    return joined([f'<p class="total">{told}</p>', '<ul class="counts">', *items, "</ul>"])


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
            parts.append(_told(verdict, reason, indexes, outcomes, links))
        left = len(of_kind) - _SENTENCES_MAX
        if left > 0:
            parts.append(paragraph(f"{left} more sentences stand with their cases.", kind="quiet"))
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


def _told(
    verdict: Verdict,
    reason: str,
    indexes: Sequence[int],
    outcomes: Sequence[Outcome],
    links: Mapping[int, str],
) -> Html:
    named = [_linked(outcomes[index].case.id, links.get(index, "")) for index in indexes]
    more = len(named) - _NAMED_MAX
    cases = ", ".join(named[:_NAMED_MAX]) + (f", and {more} more" if more > 0 else "")
    return joined(
        [
            f'<div class="told {_side(verdict)}"><p>{badge(verdict)} {cases}</p>',
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
