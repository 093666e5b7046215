"""The summary in the terminal: a table, the sentences, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.verdict import NOT_JUDGED, Verdict
from pytest_dlperf.report import figures, scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.core.run import Problem

_HEADINGS: Final = (
    "case",
    "rate",
    "baseline",
    "change",
    "90 % interval",
    "sees",
    "speedup",
    "memory",
    "runs",
    "verdict",
)


def render(outcomes: Sequence[Outcome], reproduce: Callable[[Outcome], str]) -> list[str]:
    """Return the lines of the summary: table, sentences, how to reproduce, what is NOT JUDGED.

    ``reproduce`` gives the command that runs just one case again.
    """
    lines = _table(outcomes)
    for (verdict, reason), told in _by_sentence(outcomes).items():
        lines += ["", *(f"{outcome.case.id}: {verdict}" for outcome in told)]
        lines += [f"  {line}" for line in reason.splitlines()]
        lines += [f"  reproduce: {reproduce(outcome)}" for outcome in told if outcome.failed]
    notes = [f"note: {o.case.id}: {p.message}" for o in outcomes for p in _problems(o)]
    lines += ["", *notes] if notes else []
    scaled = scaling.terminal_lines(outcomes)
    lines += ["", *scaled] if scaled else []
    published = [o for o in outcomes if o.published and o.measurement is not None]
    lines += ["", *(f"published: {o.case.id}: {_published(o)}" for o in published)]
    lines += [""] if published else []
    lines.append(_last_line(outcomes))
    return lines


def _problems(outcome: Outcome) -> Sequence[Problem]:
    found = () if outcome.measurement is None else outcome.measurement.problems
    other = outcome.against.measurement if outcome.against else None
    if outcome.against is None or other is None:
        return found
    name = outcome.against.name
    return (*found, *(replace(p, message=f"{name}: {p.message}") for p in other.problems))


def _by_sentence(outcomes: Sequence[Outcome]) -> dict[tuple[Verdict, str], list[Outcome]]:
    """Return what is to be explained, cases of one sentence together."""
    found: dict[tuple[Verdict, str], list[Outcome]] = {}
    for outcome in outcomes:
        judgement = outcome.judgement
        # A further line is something beside the verdict, such as what was not stored
        tells_more = outcome.failed or outcome.update or "\n" in judgement.reason
        if judgement.verdict is not Verdict.PASSED or tells_more:
            key = judgement.verdict, judgement.reason
            found.setdefault(key, []).append(outcome)
    return found


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [_HEADINGS, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        return "  ".join([*cells, row[-1]]).rstrip()

    return [line(row) for row in rows]


def _row(outcome: Outcome) -> tuple[str, ...]:
    measurement, judgement = outcome.measurement, outcome.judgement
    verdict = str(judgement.verdict) + (f" ({outcome.update})" if outcome.update else "")
    if judgement.known is not None:
        verdict += f" [{judgement.known}]"
    comparison = judgement.throughput
    if measurement is None:
        return (outcome.case.id, *[figures.ABSENT] * 8, verdict)
    runs = str(len(measurement.runs))
    if measurement.disturbed_runs:
        runs += f" (+{len(measurement.disturbed_runs)} disturbed)"
    if measurement.inject:
        verdict += f" [injected {figures.percent(measurement.inject)}]"
    return (
        outcome.case.id,
        f"{figures.rate(outcome.judged_throughput)} {measurement.unit}/s",
        figures.rate(comparison.before),
        figures.percent(comparison.change),
        figures.interval(comparison),
        figures.percent(comparison.sees, sign=False),
        figures.ABSENT if measurement.speedup is None else f"{measurement.speedup:.2f}",
        figures.memory(measurement.peak_memory_bytes),
        runs,
        verdict,
    )


def _published(outcome: Outcome) -> str:
    published = outcome.published
    return (
        f"{published['throughput']} {published['unit']}/s on {published['machine_class']} "
        f"({published['document']}, {published['table']})"
    )


def _last_line(outcomes: Sequence[Outcome]) -> str:
    counts = {
        verdict: sum(o.judgement.verdict is verdict and not o.update for o in outcomes)
        for verdict in Verdict
    }
    updated = sum(bool(o.update) for o in outcomes)
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    if updated:
        parts.append(f"{updated} written to the baselines")
    line = f"{len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}: " + ", ".join(parts)
    not_judged = sum(count for verdict, count in counts.items() if verdict in NOT_JUDGED)
    if not_judged:
        line += f"; {not_judged} NOT JUDGED"
    return line
