"""The summary in the terminal: a table, the sentences, and what to type next."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_dlperf.core.metrics import words_of
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import Problem, RunSummary
from pytest_dlperf.core.verdict import NOT_JUDGED, Verdict
from pytest_dlperf.report import confirmation, cost, explanation, figures, scaling
from pytest_dlperf.report.later import sentence
from pytest_dlperf.report.printable import columns, one_line, padded, printable
from pytest_dlperf.report.sort_order import Standing, headline, standing, worst_first

_CASE: Final = "case"
_VERDICT: Final = "verdict"
_COLUMNS: Final = (
    "rate",
    "baseline",
    "change",
    "90 % interval",
    "sees",
    "speedup",
    "memory",
    "runs",
)
#: Those of a session that traces, and times nothing.
_COST_COLUMNS: Final = ("FLOPs", "launches", "collectives", "peak memory")
#: Columns that a narrow terminal does without, the first to go first.
_LEAST: Final = (
    "memory", "speedup", "runs", "sees", "90 % interval", "baseline", "collectives", "launches",
)  # fmt: skip
_COLOURS: Final = {Standing.FAILED: "red", Standing.APART: "yellow", Standing.PASSED: "green"}
_GAP: Final = "  "


class Line(NamedTuple):
    """A line of the summary; ``tail`` is its end, in a colour of pytest's terminal."""

    text: str
    tail: str = ""
    colour: str = ""

    @property
    def plain(self) -> str:
        """The line without colour."""
        return f"{self.text}{self.tail}".rstrip()


def table(outcomes: Sequence[Outcome], width: int, *, verbose: bool = False) -> list[Line]:
    """Return the table of ``outcomes`` in ``width`` columns, as far as their ids allow.

    Where a line is too long, columns are left out, and a last line says which; where even the
    rate, the change and the verdict do not fit beside the id, that has a line of its own.
    ``verbose`` leaves columns out last, and adds the runs.
    """
    rows = [_cells(outcome) for outcome in outcomes]
    every = _COLUMNS if _is_timed(outcomes) else _COST_COLUMNS
    widths = {
        name: max(columns(row[name]) for row in [*rows, {name: name}])
        for name in (_CASE, *every, _VERDICT)
    }
    next_to_id = _fitting(widths, width - widths[_CASE], fewest=len(every) if verbose else 2)
    kept = _fitting(widths, width, fewest=0) if next_to_id is None else next_to_id
    assert kept is not None
    lines = [
        Line(_figures({name: name for name in widths}, kept, widths, _CASE, next_to_id), _VERDICT)
    ]
    for outcome, row in zip(outcomes, rows, strict=True):
        if next_to_id is None:
            lines.append(Line(row[_CASE]))
        colour = _COLOURS[standing(outcome)]
        text = _figures(row, kept, widths, row[_CASE], next_to_id)
        lines.append(Line(text, row[_VERDICT], colour))
        lines += _runs(outcome) if verbose else []
    left_out = [name for name in every if name not in kept]
    if left_out:
        text = f"(a wider terminal shows {', '.join(left_out)} as well)"
        lines += [Line(part) for part in textwrap.wrap(text, width)]
    return lines


def _fitting(widths: Mapping[str, int], width: int, *, fewest: int) -> list[str] | None:
    """Return the columns that fit with the verdict; None if there are less than ``fewest``."""
    kept = [name for name in widths if name not in {_CASE, _VERDICT}]
    for name in ("", *_LEAST):
        kept = [column for column in kept if column != name]
        if sum(len(_GAP) + widths[column] for column in (*kept, _VERDICT)) <= width:
            return kept if len(kept) >= fewest else None
    return kept if not fewest else None


def _figures(
    row: Mapping[str, str],
    kept: Sequence[str],
    widths: Mapping[str, int],
    case_id: str,
    next_to_id: Sequence[str] | None,
) -> str:
    """Return a line up to its verdict; without the id where that has a line of its own."""
    figures_ = [padded(row[name], widths[name], right=True) for name in kept]
    first = "" if next_to_id is None else padded(case_id, widths[_CASE])
    return _GAP.join([first, *figures_, ""])


def _is_timed(outcomes: Sequence[Outcome]) -> bool:
    """Return whether rates are shown: all but sessions of costs alone have some."""
    return any(o.measurement is not None for o in outcomes) or not any(o.cost for o in outcomes)


def _cells(outcome: Outcome) -> dict[str, str]:
    measurement, judgement = outcome.measurement, outcome.judgement
    verdict = str(judgement.verdict) + (f" ({outcome.update})" if outcome.update else "")
    if judgement.known is not None:
        verdict += f" [{judgement.known}]"
    if outcome.taken_from:
        verdict += " [taken]"
    cells = {_CASE: printable(outcome.case.id), _VERDICT: verdict}
    if measurement is None:
        absent = dict.fromkeys((*_COLUMNS, *_COST_COLUMNS), figures.ABSENT)
        costs = () if outcome.cost is None else cost.column_cells(outcome.cost)
        return cells | absent | dict(zip(_COST_COLUMNS, costs, strict=False))
    runs = str(len(measurement.runs))
    if measurement.disturbed_runs:
        runs += f" (+{len(measurement.disturbed_runs)} disturbed)"
    if measurement.inject:
        cells[_VERDICT] += f" [injected {figures.percent(measurement.inject)}]"
    comparison = judgement.throughput
    values = (
        f"{figures.rate(outcome.judged_throughput)} {printable(measurement.unit)}/s",
        figures.rate(comparison.before),
        figures.change(comparison),
        figures.interval(comparison),
        figures.percent(comparison.sees, sign=False),
        figures.ABSENT if measurement.speedup is None else f"{measurement.speedup:.2f}",
        figures.memory(measurement.peak_memory_bytes),
        runs,
    )
    return cells | dict(zip(_COLUMNS, values, strict=True))


def _runs(outcome: Outcome) -> list[Line]:
    """Return a line for each arm's runs as measured, and one for each run that does not count."""
    lines = []
    measured = [("", outcome.measurement)]
    if (pairs := confirmation.as_pairs(outcome)) is not None:
        measured.append(("pairs: ", pairs.measurement))
    for one in (outcome, pairs):
        if one is not None and one.against is not None:
            measured.append(("other arm's ", one.against.measurement))
    for name, measurement in measured:
        if measurement is None:
            continue
        rates = " ".join(figures.rate(rate) for rate in measurement.throughputs)
        lines.append(Line(f"  {name}runs: {rates} {printable(measurement.unit)}/s"))
        lines += [_disturbed(name, run) for run in measurement.disturbed_runs]
    return lines


def _disturbed(name: str, run: RunSummary) -> Line:
    return Line(
        f"  {name}run that does not count: {figures.rate(run.throughput)}; {run.disturbed}"
    )


#: Cases, sentences or notes that a list has at most without ``-v``.
_LISTED: Final = 40
#: Cases named, and commands given, for one sentence.
_NAMED: Final = 10


def render(
    outcomes: Sequence[Outcome],
    *,
    width: int,
    verbosity: int = 0,
    printed: Collection[str] = frozenset(),
) -> list[Line]:
    """Return the lines of the summary: table, sentences, how to reproduce, what is NOT JUDGED.

    ``printed`` are the ids of cases that were not judged and whose sentence pytest has printed, as
    that of a failed test. ``width`` is that of the terminal; ``verbosity`` is pytest's: below 0
    there is one line, and one for each sentence of what is not judged; above 0 nothing is left
    out.
    """
    if verbosity < 0:
        return [Line(headline(outcomes)), *_not_judged(outcomes)]
    verbose = verbosity > 0
    shown = outcomes if verbose else _shown(outcomes)
    lines = table(shown, width, verbose=verbose) if shown else []
    if len(shown) < len(outcomes):
        lines.append(Line(_left_out(outcomes, shown)))
    lines += _sentences(shown, _listed_max(_NAMED, verbose=verbose), printed, verbose=verbose)
    lines += [Line(text) for text in explanation.terminal_lines(shown, verbose=verbose)]
    lines += [Line(text) for text in cost.terminal_lines(shown, verbose=verbose)]
    most = _listed_max(_LISTED, verbose=verbose)
    notes = [
        f"note: {o.case.id}: {p.message}"
        for o in outcomes
        for p in _problems(o)
        if p.message not in o.judgement.reason or o.judgement.verdict is Verdict.PASSED
    ]
    published = [o for o in outcomes if o.published and o.measurement is not None]
    published_lines = [f"published: {o.case.id}: {_published(o)}" for o in published]
    measured = [f"metrics: {o.case.id}: {line}" for o in outcomes if (line := metrics_line(o))]
    for several in (notes, measured, scaling.terminal_lines(outcomes), published_lines):
        if several:
            lines += [Line(""), *(Line(one_line(text)) for text in several[:most])]
            lines += _left_out_line(several, most)
    pairs = [Line(text)] if (text := confirmation.cost(outcomes)) else []
    return [*lines, Line(""), *pairs, Line(headline(outcomes))]


def metrics_line(outcome: Outcome) -> str:
    """Return the metrics of a case, with the change of those that are gated; empty for none."""
    if outcome.measurement is None:
        return ""
    words = []
    for name, value in figures.metrics(outcome.measurement).items():
        comparison = outcome.judgement.metrics.get(name)
        change = ""
        if comparison is not None and comparison.verdict is not None:
            change = f" ({figures.percent(comparison.change)}, {comparison.verdict})"
        words.append(f"{words_of(name)} {value}{change}")
    return ", ".join(words)


def _not_judged(outcomes: Sequence[Outcome]) -> list[Line]:
    """Return a line for each sentence of cases that were not judged, with the change seen."""
    apart = [o for o in outcomes if o.judgement.verdict in NOT_JUDGED and not o.update]
    by_sentence = outcomes_by_sentence(apart)
    lines = []
    for (verdict, reason), alike in list(by_sentence.items())[:_LISTED]:
        ids = ", ".join(f"{o.case.id}{_change_seen(o)}" for o in alike[:_NAMED])
        unnamed = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
        lines.append(Line(one_line(f"{ids}{unnamed}: {verdict}: {reason}")))
    return lines + _left_out_line(list(by_sentence), _LISTED)


def _change_seen(outcome: Outcome) -> str:
    """Return the change that was seen with its interval, in brackets; nothing if unknown."""
    throughput = outcome.judgement.throughput
    if throughput.change is None:
        return ""
    return f" ({figures.percent(throughput.change)}, 90 % interval {figures.interval(throughput)})"


def later_sessions(outcomes: Sequence[Outcome], *, verbosity: int = 0) -> list[str]:
    """Return a line for each stored case on what later sessions can detect, the worst first."""
    stored = [
        (outcome.later, outcome.case.id) for outcome in outcomes if outcome.later is not None
    ]
    stored.sort(key=lambda row: -row[0].sees)
    most = _listed_max(_LISTED, verbose=verbosity > 0)
    lines = [one_line(f"{case_id}: {sentence(later)}") for later, case_id in stored[:most]]
    return lines + [line.plain for line in _left_out_line(stored, most)]


def _listed_max(most: int, *, verbose: bool) -> int | None:
    """Return how many a list has at most; None for all."""
    return None if verbose else most


def _left_out_line(all_: Sequence[object], most: int | None) -> list[Line]:
    """Return a line that says how many a list has left out; none if it has all."""
    left_out = 0 if most is None else max(0, len(all_) - most)
    return [Line(f"... and {left_out} more; -v shows all")] if left_out else []


def _shown(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the cases to list, in their order: of many the worst, and none that passed."""
    if len(outcomes) <= _LISTED:
        return list(outcomes)
    worst = [o for o in worst_first(outcomes) if standing(o) is not Standing.PASSED][:_LISTED]
    ids = {outcome.case.id for outcome in worst}
    return [outcome for outcome in outcomes if outcome.case.id in ids]


def _left_out(outcomes: Sequence[Outcome], shown: Sequence[Outcome]) -> str:
    passed = sum(standing(outcome) is Standing.PASSED for outcome in outcomes)
    further = len(outcomes) - len(shown) - passed
    parts = [f"{passed} passed"] if passed else []
    parts += [f"{further} others"] if further else []
    return f"(not listed: {', '.join(parts)}; -v lists all)"


def _problems(outcome: Outcome) -> Sequence[Problem]:
    problems = () if outcome.measurement is None else outcome.measurement.problems
    if (pairs := confirmation.as_pairs(outcome)) is not None:
        messages = {problem.message for problem in problems}
        problems = (
            *problems,
            *(problem for problem in _problems(pairs) if problem.message not in messages),
        )
    other_arm = outcome.against.measurement if outcome.against else None
    if outcome.against is None or other_arm is None:
        return problems
    name = outcome.against.name
    return (*problems, *(replace(p, message=f"{name}: {p.message}") for p in other_arm.problems))


#: Verdicts of stored sessions whose case is explained though pairs, or equal code, let it pass.
_EXPLAINED: Final = frozenset({Verdict.REGRESSED, Verdict.INCOMPARABLE, Verdict.UNSTEADY})
#: In place of a sentence that is above.
_IS_ABOVE: Final = "as its failure above says"


def _details(outcome: Outcome) -> list[str]:
    return [one_line(detail) for detail in outcome.judgement.details]


def _sentences(
    outcomes: Sequence[Outcome], most: int | None, printed: Collection[str], *, verbose: bool
) -> list[Line]:
    lines = []
    for (verdict, reason), alike in outcomes_by_sentence(outcomes, verbose=verbose).items():
        lines += [Line(""), *(Line(f"{outcome.case.id}: {verdict}") for outcome in alike[:most])]
        lines += _left_out_line(alike, most)
        is_printed = verdict in NOT_JUDGED and all(outcome.case.id in printed for outcome in alike)
        text = _IS_ABOVE if is_printed else printable(reason)
        lines += [Line(f"  {line}") for line in text.splitlines()]
        if verbose:
            lines += [Line(f"    {line}") for outcome in alike for line in _details(outcome)]
        failed = [outcome for outcome in alike if outcome.failed and outcome.command]
        lines += [Line(f"  reproduce: {outcome.command}") for outcome in failed[:most]]
    return lines


def outcomes_by_sentence(
    outcomes: Sequence[Outcome], *, verbose: bool = False
) -> dict[tuple[Verdict, str], list[Outcome]]:
    """Return what is to be explained, cases of one sentence together; ``verbose``: of all."""
    alike: dict[tuple[Verdict, str], list[Outcome]] = {}
    for outcome in outcomes:
        judgement = outcome.judgement
        # A further line is something beside the verdict, such as what was not stored
        tells_more = outcome.failed or outcome.update or "\n" in judgement.reason
        tells_more = tells_more or (verbose and bool(judgement.details))
        second = outcome.confirmation
        # The table alone would look as if nothing were to be known of such a change
        tells_more = tells_more or (second is not None and second.stored.verdict in _EXPLAINED)
        if judgement.verdict is not Verdict.PASSED or tells_more:
            key = judgement.verdict, judgement.reason
            alike.setdefault(key, []).append(outcome)
    return alike


def _published(outcome: Outcome) -> str:
    published = outcome.published
    return (
        f"{published['throughput']} {published['unit']}/s on {published['machine_class']} "
        f"({published['document']}, {published['table']})"
    )
