"""The summary in the terminal: a table, the sentences, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import scaling
from pytest_dlperf.report.printable import one_line, printable
from pytest_dlperf.report.sort_order import Standing, headline, standing, worst_first
from pytest_dlperf.report.terminal_table import Line, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.core.run import Problem

#: Cases, sentences or notes that a list has at most without ``-v``.
_LISTED: Final = 40
#: Cases named, and commands given, for one sentence.
_NAMED: Final = 10


def render(outcomes: Sequence[Outcome], *, width: int, verbosity: int = 0) -> list[Line]:
    """Return the lines of the summary: table, sentences, how to reproduce, what is NOT JUDGED.

    ``width`` is that of the terminal; ``verbosity`` is pytest's: below 0 there is one line, above
    0 nothing is left out.
    """
    if verbosity < 0:
        return [Line(headline(outcomes))]
    verbose = verbosity > 0
    shown = outcomes if verbose else _shown(outcomes)
    lines = table(shown, width, verbose=verbose) if shown else []
    if len(shown) < len(outcomes):
        lines.append(Line(_left_out(outcomes, shown)))
    lines += _sentences(shown, _of(_NAMED, verbose=verbose))
    most = _of(_LISTED, verbose=verbose)
    notes = [f"note: {o.case.id}: {p.message}" for o in outcomes for p in _problems(o)]
    published = [o for o in outcomes if o.published and o.measurement is not None]
    told = [f"published: {o.case.id}: {_published(o)}" for o in published]
    for several in (notes, scaling.terminal_lines(outcomes), told):
        if several:
            lines += [Line(""), *(Line(one_line(text)) for text in several[:most])]
            lines += _more(several, most)
    return [*lines, Line(""), Line(headline(outcomes))]


def never_ran(case_ids: Sequence[str], *, verbosity: int = 0) -> list[str]:
    """Return the lines that tell of cases that were to run and have no outcome."""
    why = "never ran (skipped, or failed before it began)"
    if verbosity < 0:
        return [f"{len(case_ids)} {why}"] if case_ids else []
    most = _of(_LISTED, verbose=verbosity > 0)
    lines = [f"{one_line(case_id)}: {why}" for case_id in case_ids[:most]]
    return lines + [line.plain for line in _more(case_ids, most)]


def _of(most: int, *, verbose: bool) -> int | None:
    """Return how many a list has at most; None for all."""
    return None if verbose else most


def _more(all_: Sequence[object], most: int | None) -> list[Line]:
    """Return a line that says how many a list has left out; none if it has all."""
    more = 0 if most is None else max(0, len(all_) - most)
    return [Line(f"... and {more} more; -v shows all")] if more else []


def _shown(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the cases to list, in their order: of many the worst, and none that passed."""
    if len(outcomes) <= _LISTED:
        return list(outcomes)
    worst = [o for o in worst_first(outcomes) if standing(o) is not Standing.PASSED][:_LISTED]
    ids = {outcome.case.id for outcome in worst}
    return [outcome for outcome in outcomes if outcome.case.id in ids]


def _left_out(outcomes: Sequence[Outcome], shown: Sequence[Outcome]) -> str:
    passed = sum(standing(outcome) is Standing.PASSED for outcome in outcomes)
    others = len(outcomes) - len(shown) - passed
    parts = [f"{passed} passed"] if passed else []
    parts += [f"{others} others"] if others else []
    return f"(not listed: {', '.join(parts)}; -v lists all)"


def _problems(outcome: Outcome) -> Sequence[Problem]:
    found = () if outcome.measurement is None else outcome.measurement.problems
    other = outcome.against.measurement if outcome.against else None
    if outcome.against is None or other is None:
        return found
    name = outcome.against.name
    return (*found, *(replace(p, message=f"{name}: {p.message}") for p in other.problems))


def _sentences(outcomes: Sequence[Outcome], most: int | None) -> list[Line]:
    lines = []
    for (verdict, reason), told in by_sentence(outcomes).items():
        lines += [Line(""), *(Line(f"{outcome.case.id}: {verdict}") for outcome in told[:most])]
        lines += _more(told, most)
        lines += [Line(f"  {line}") for line in printable(reason).splitlines()]
        failed = [outcome for outcome in told if outcome.failed and outcome.command]
        lines += [Line(f"  reproduce: {outcome.command}") for outcome in failed[:most]]
    return lines


def by_sentence(outcomes: Sequence[Outcome]) -> dict[tuple[Verdict, str], list[Outcome]]:
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


def _published(outcome: Outcome) -> str:
    published = outcome.published
    return (
        f"{published['throughput']} {published['unit']}/s on {published['machine_class']} "
        f"({published['document']}, {published['table']})"
    )
