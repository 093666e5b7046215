"""The comment on a pull request and the summary of a GitHub job, with failures on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.confirmation import cost
from pytest_dlperf.report.cost import HEADINGS, figure_row, shown_figures
from pytest_dlperf.report.explanation import headings, part_row
from pytest_dlperf.report.gate import marker
from pytest_dlperf.report.markdown import block, inline, row
from pytest_dlperf.report.sort_order import Standing, headline, standing, worst_first
from pytest_dlperf.report.terminal import metrics_line, outcomes_by_sentence

#: GitHub refuses a comment of more than 65,536 characters; a character has a byte or more.
COMMENT_BYTES: Final = 65_000
#: What stands below is short; this much of the room is kept for it.
_FOR_PASSED: Final = 0.25
#: Cases named for one sentence.
_NAMED: Final = 10
#: Parts of a step in the table of a cause.
_PARTS: Final = 5
_HEADINGS: Final = ("case", "verdict", "change", "90 % interval", "rate", "baseline", "sees")
_SIGNS: Final = {Standing.FAILED: "❌", Standing.APART: "⚠️", Standing.PASSED: "✅"}


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the comment; its first line is that of the gate, however its session ended."""
    first = f"{marker()}\n"
    return first + summary(outcomes, limit_bytes=COMMENT_BYTES - _size(first))


def summary(outcomes: Sequence[Outcome], *, limit_bytes: int) -> str:
    """Return the Markdown of ``outcomes`` in so many bytes of UTF-8, saying what was cut."""
    ordered = worst_first(outcomes)
    passed = [outcome for outcome in ordered if standing(outcome) is Standing.PASSED]
    not_passed = ordered[: len(ordered) - len(passed)]
    text = _head(outcomes)
    room = limit_bytes - _size(text)
    if not_passed:
        kept = room if not passed else round(room * (1 - _FOR_PASSED))
        text += _table(not_passed, kept // 2)
        text += _sentences(not_passed, kept - kept // 2)
    metrics = [
        f"- {inline(outcome.case.id)}: {inline(line)}"
        for outcome in ordered
        if (line := metrics_line(outcome))
    ]
    if metrics:
        text += _within(["#### Metrics", ""], metrics, "cases", (limit_bytes - _size(text)) // 2)
    if passed:
        text += _details(passed, limit_bytes - _size(text))
    return text


def _head(outcomes: Sequence[Outcome]) -> str:
    worst = min((standing(outcome) for outcome in outcomes), default=Standing.APART)
    lines = [f"### {_SIGNS[worst]} Training performance: {headline(outcomes)}", ""]
    where = {
        (o.environment.machine_class if o.environment else "", short_commit(o.commit))
        for o in outcomes
    }
    places = [" at ".join(inline(word) for word in pair if word) for pair in sorted(where)]
    lines += [f"On {', '.join(place for place in places if place)}.", ""] if any(places) else []
    lines += [f"{pairs}.", ""] if (pairs := cost(outcomes)) else []
    return "\n".join(lines) + "\n"


def _table(outcomes: Sequence[Outcome], room: int) -> str:
    head = [row(_HEADINGS), row(["---", "---", *["--:"] * 5])]
    rows = [_row(outcome) for outcome in outcomes]
    return _within(head, rows, "cases", room)


def _row(outcome: Outcome) -> str:
    judgement, measurement = outcome.judgement, outcome.measurement
    comparison = judgement.throughput
    remark = f" ({judgement.known})" if judgement.known else ""
    remark += " (taken)" if outcome.taken_from else ""
    rate = figures.ABSENT
    if measurement is not None:
        rate = f"{figures.rate(outcome.judged_throughput)} {measurement.unit}/s"
    cells = (
        outcome.case.id,
        f"{_SIGNS[standing(outcome)]} {judgement.title}{remark}",
        figures.change(comparison),
        figures.interval(comparison),
        rate,
        figures.rate(comparison.before),
        figures.percent(comparison.sees, sign=False),
    )
    return row(inline(cell) for cell in cells)


def _sentences(outcomes: Sequence[Outcome], room: int) -> str:
    sentences = []
    for (_, reason), cases in outcomes_by_sentence(outcomes).items():
        unnamed = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
        ids = ", ".join(inline(outcome.case.id) for outcome in cases[:_NAMED])
        first, *rest = reason.splitlines() or [""]
        title = inline(cases[0].judgement.title)
        text = f"**{ids}{unnamed}: {title}.** {inline(first)}\n"
        text = f"{text}\n{block(chr(10).join(rest))}\n" if rest else text
        tables = (f"{_parts(outcome)}{_cost(outcome)}" for outcome in cases[:_NAMED])
        sentences.append(text + "".join(tables))
    return _within([], sentences, "sentences", room)


def _parts(outcome: Outcome) -> str:
    """Return the parts of a step that changed most, as a table; empty without a profile."""
    explanation = outcome.explanation
    if explanation is None or explanation.before_ms is None:
        return ""
    rows = [part_row(change) for change in explanation.parts[:_PARTS]]
    lines = [row(headings("part")), row(["---", *["--:"] * 4])]
    lines += [row(inline(cell) for cell in cells) for cells in rows]
    return "\n" + "\n".join(lines) + "\n"


def _cost(outcome: Outcome) -> str:
    """Return the figures of a cost that changed, as a table; empty without them."""
    rows = [] if outcome.cost is None else shown_figures(outcome.cost, every=False)
    if not rows:
        return ""
    lines = [row(HEADINGS), row(["---", *["--:"] * 3])]
    lines += [row(inline(cell) for cell in figure_row(figure)) for figure in rows]
    return "\n" + "\n".join(lines) + "\n"


def _details(passed: Sequence[Outcome], room: int) -> str:
    head = f"<details><summary>{len(passed)} passed</summary>\n\n"
    tail = "</details>\n"
    return head + _table(passed, room - _size(head + tail)) + tail


def _within(head: Sequence[str], parts: Sequence[str], what: str, room: int) -> str:
    """Return ``head`` and as many of ``parts`` as ``room`` bytes hold, and how many were cut."""
    cut = "\n*{} further " + what + " are cut here for want of room; the results file has them.*\n"
    left = room - _size("\n".join([*head, cut.format(len(parts)), "", ""]))
    kept = []
    for part in parts:
        left -= _size(part) + 1
        if left < 0:
            break
        kept.append(part)
    text = "\n".join([*head, *kept]) + "\n"
    cut_count = len(parts) - len(kept)
    return text + (cut.format(cut_count) if cut_count else "") + "\n"


def _size(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))
