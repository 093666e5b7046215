"""The section of a page about one case: verdict, charts, conditions, environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_dlperf.core.baseline import level_of
from pytest_dlperf.core.metrics import metric_of, words_of
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.report import confirmation, figures, later
from pytest_dlperf.report.page.cost_section import cost_section
from pytest_dlperf.report.page.explanation_section import explanation_section
from pytest_dlperf.report.page.findings_section import findings_section
from pytest_dlperf.report.page.markup import Html, code, facts, joined, name, paragraph, text
from pytest_dlperf.report.page.runs_chart import memory_chart, runs_chart, skew_chart
from pytest_dlperf.report.page.svg import Drawn, figure
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table
from pytest_dlperf.report.page.trace_chart import trace_chart
from pytest_dlperf.report.page.verdicts import badge, badge_of, command_of, sentence
from pytest_dlperf.report.scaling import scaling_figures


class Change(NamedTuple):
    """One thing that is not as it was; None for what was not recorded."""

    name: str
    before: str | None
    now: str | None


class Changes(NamedTuple):
    """What differs, software first, and since when."""

    since: str
    changes: tuple[Change, ...]


def environment_changes(outcome: Outcome) -> Changes | None:
    """Return what changed since the baseline's last session, or against the other arm.

    None where nothing was judged against, or where it was recorded on neither side.
    """
    environment = outcome.environment
    if environment is None:
        return None
    if outcome.against is not None:
        if not outcome.against.software:
            return None
        changes = [
            *_commits(outcome.against.commit, outcome.commit),
            *_differences(outcome.against.software, environment.software),
            *_packages(outcome),
        ]
        return Changes(f"against {outcome.against.name}", tuple(changes))
    level = level_of(outcome.baseline_sessions)
    if not level or not (level[-1].software or level[-1].machine):
        return None
    last = level[-1]
    changes = [
        *_differences(last.software, environment.software),
        *_packages(outcome),
        *_commits(last.commit, outcome.commit),
        *_differences(last.machine, environment.machine),
        *_differences({"node": last.node}, {"node": environment.node}),
    ]
    return Changes(f"since the baseline's last session, {last.time}", tuple(changes))


def changes_section(outcome: Outcome) -> Html:
    """Return the table of what changed, or that nothing did; nothing where none can tell."""
    environment = environment_changes(outcome)
    if environment is None:
        return Html("")
    heading = "<h3>What changed</h3>"
    if not environment.changes:
        unchanged = f"No recorded software and no part of the machine changed {environment.since}."
        return joined([heading, paragraph(unchanged, kind="quiet")])
    rows = [
        TableRow(cells=(cell(change.name), _value(change.before), _value(change.now)))
        for change in environment.changes
    ]
    columns = [Column(heading="what"), Column(heading="before"), Column(heading="now")]
    return joined([heading, table(f"Differences {environment.since}", columns, rows)])


def _value(value: str | None) -> TableCell:
    return TableCell(shown=name(figures.ABSENT if value is None else value))


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    names = [*now, *(key for key in before if key not in now)]
    return [
        Change(key, before.get(key), now.get(key))
        for key in names
        if before.get(key) != now.get(key)
    ]


def _packages(outcome: Outcome) -> list[Change]:
    return [Change(one.name, one.before, one.now) for one in outcome.package_changes]


def _commits(before: str, now: str) -> list[Change]:
    return _differences({"commit": before} if before else {}, {"commit": now} if now else {})


def case_section(
    index: int,
    outcome: Outcome,
    *,
    link: str,
    scaling: Drawn | None,
    with_trace: bool,
    is_open: bool,
) -> Html:
    """Return the section of a case."""
    throughput, pairs = outcome.judgement.throughput, confirmation.as_pairs(outcome)
    brief = f" {figures.change(throughput)}" if throughput.change is not None else ""
    opened = " open" if is_open else ""
    parts = [
        f'<details class="case" data-follows="{index}"{opened}>',
        f"<summary>{badge_of(outcome)} {name(outcome.case.id)}"
        f'<span class="brief">{brief}</span></summary>',
        # Within it: a browser without scripts opens what is around a link's target
        f'<div class="target" id="{link}"></div>',
        sentence(outcome.judgement.reason),
        *(paragraph(detail, kind="quiet") for detail in outcome.judgement.details),
        command_of([outcome]) if outcome.failed else Html(""),
        *(paragraph(f"note: {message}", kind="quiet") for message in _problems(outcome)),
        *(paragraph(f"note: pairs: {message}", kind="quiet") for message in _problems(pairs)),
        *([] if outcome.later is None else [paragraph(later.sentence(outcome.later))]),
        _comparisons(outcome),
        findings_section(outcome.judgement),
        explanation_section(outcome.explanation),
        cost_section(outcome.cost),
        '<div class="charts">',
        figure(f"runs-{index}", "Runs", runs_chart(confirmation.as_judged_by_stored(outcome))),
    ]
    if pairs is not None:
        parts.append(figure(f"pairs-{index}", "Pairs", runs_chart(pairs)))
        if with_trace:
            parts.append(
                figure(f"pairs-trace-{index}", "Iterations of the pairs", trace_chart(pairs))
            )
    if with_trace:
        parts.append(figure(f"trace-{index}", "Iterations", trace_chart(outcome)))
    if scaling is not None:
        # One curve for all its cases: the page has it once, whatever opens it.
        parts.append(figure(f"scaling-{scaling.chart.description}", "Scaling", scaling))
    parts += [
        figure(f"memory-{index}", "Peak memory", memory_chart(outcome)),
        figure(f"skew-{index}", "Skew of the ranks", skew_chart(outcome)),
        "</div>",
        changes_section(outcome),
        _nodes(outcome),
        _runs(outcome),
        _runs(pairs, "Runs of now in the pairs"),
        "<h3>Facts</h3>",
        facts(_facts(outcome)),
        "</details>",
    ]
    return joined(part for part in parts if part)


def _problems(outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return []
    problems = [] if outcome.measurement is None else list(outcome.measurement.problems)
    messages = [problem.message for problem in problems]
    if outcome.against is not None and outcome.against.measurement is not None:
        other_problems = outcome.against.measurement.problems
        messages += [f"{outcome.against.name}: {problem.message}" for problem in other_problems]
    return messages


def _comparisons(outcome: Outcome) -> Html:
    """Return the table of gated metrics; nothing where none could be compared."""
    judgement = outcome.judgement
    comparisons = {"throughput": judgement.throughput, **judgement.metrics}
    compared = {
        metric: comparison
        for metric, comparison in comparisons.items()
        if comparison.before is not None
    }
    if not compared:
        return Html("")
    columns = [
        Column(heading="metric"),
        *(
            Column(heading=heading, kind="number")
            for heading in ("now", "before", "change", "90 % interval", "sees", "tolerance")
        ),
        Column(heading="verdict"),
    ]
    runs = outcome.measurement.runs if outcome.measurement else ()
    units = {name: metric.unit for name, metric in (runs[0].metrics if runs else {}).items()}
    rows = [
        _comparison(metric, comparison, units.get(metric, ""))
        for metric, comparison in compared.items()
    ]
    return table("What was compared", columns, rows)


def _comparison(metric: str, comparison: Comparison, unit: str) -> TableRow:
    is_memory = "bytes" in {unit, metric_of(metric).unit}
    shown = figures.memory if is_memory else figures.rate
    return TableRow(
        cells=(
            cell(words_of(metric) + (f", {unit}" if unit == "s" else "")),
            number(shown(comparison.now), comparison.now),
            number(shown(comparison.before), comparison.before),
            number(figures.change(comparison), comparison.change),
            number(figures.interval(comparison), None),
            number(figures.percent(comparison.sees, sign=False), comparison.sees),
            number(figures.percent(comparison.tolerance, sign=False), comparison.tolerance),
            TableCell(shown=Html("") if comparison.verdict is None else badge(comparison.verdict)),
        )
    )


def _nodes(outcome: Outcome) -> Html:
    """Return what each node of several did in the last run; nothing for one node."""
    runs = outcome.measurement.runs if outcome.measurement else ()
    ranks = runs[-1].ranks if runs else ()
    nodes = list(dict.fromkeys(rank.node for rank in ranks))
    if len(nodes) < 2:
        return Html("")
    canaries = runs[-1].canary_by_node
    rates = sorted({rate for node in nodes for rate in canaries.get(node, {})})
    rows = []
    for node in nodes:
        of_node = [rank for rank in ranks if rank.node == node]
        peaks = [r.peak_memory_bytes for r in of_node if r.peak_memory_bytes is not None]
        rows.append(
            TableRow(
                cells=(
                    TableCell(shown=name(node)),
                    cell(", ".join(str(rank.rank) for rank in of_node)),
                    number(figures.memory(max(peaks, default=None)), None),
                    *(number(figures.rate(canaries.get(node, {}).get(r)), None) for r in rates),
                )
            )
        )
    columns = [
        Column(heading="node"),
        Column(heading="ranks"),
        Column(heading="peak memory", kind="number"),
        *(Column(heading=f"canary: {rate}", kind="number") for rate in rates),
    ]
    caption = "The last run; the canary is fixed work, of which a slow node does less"
    return joined(["<h3>Nodes</h3>", table(caption, columns, rows)])


def _runs(outcome: Outcome | None, caption: str = "Runs of now") -> Html:
    """Return each run with where its records are."""
    measurement = None if outcome is None else outcome.measurement
    if measurement is None:
        return Html("")
    rows = [_run(str(number), run) for number, run in enumerate(measurement.runs, 1)]
    rows += [_run("does not count", run) for run in measurement.disturbed_runs]
    columns = [
        Column(heading="run"),
        Column(heading=f"{measurement.unit}/s", kind="number"),
        Column(heading="to the first step", kind="number"),
        Column(heading="others' CPU", kind="number"),
        Column(heading="memory", kind="number"),
        Column(heading="remark"),
        Column(heading="records"),
    ]
    return joined(["<h3>Runs and their records</h3>", table(caption, columns, rows)])


def _run(label: str, run: RunSummary) -> TableRow:
    first = run.time_to_first_step_s
    remarks = "; ".join([*filter(None, [run.disturbed]), *(p.message for p in run.problems)])
    where = run.log or run.folder
    return TableRow(
        cells=(
            cell(label),
            number(figures.rate(run.throughput), None),
            number(figures.ABSENT if first is None else f"{first:.1f} s", None),
            number(figures.percent(run.others_cpu_share, sign=False), None),
            number(figures.memory(run.peak_memory_bytes), None),
            TableCell(shown=name(remarks)),
            TableCell(shown=code(where) if where else text(figures.ABSENT)),
        )
    )


def _commit(outcome: Outcome) -> str:
    if outcome.checkout_problem:
        state = f"{outcome.commit}, and changes are" if outcome.commit else "it is"
        return f"{state} not known: {outcome.checkout_problem}"
    return outcome.commit + (", with changes" if outcome.dirty else "")


def _arms(outcome: Outcome) -> Iterator[tuple[str, object]]:
    if outcome.against is not None:
        yield "against", outcome.against.name
    if outcome.confirmation is not None:
        yield "side by side", confirmation.fact(outcome.confirmation)


def _facts(outcome: Outcome) -> Iterator[tuple[str, object]]:
    case, measurement, environment = outcome.case, outcome.measurement, outcome.environment
    yield "layout", f"{case.layout}, {case.batch_size_per_device} per device"
    if measurement is not None:
        conditions = measurement.conditions
        first, end = conditions.window
        yield "window", f"iterations {first} to {end}"
        yield "launcher", conditions.launcher
        yield "dtype", conditions.dtype
        yield "data", conditions.data
        if measurement.speedup is not None and measurement.efficiency is not None:
            efficiency = figures.percent(measurement.efficiency, sign=False)
            of = "" if measurement.reference is None else f" over {measurement.reference}"
            yield "speedup", f"{measurement.speedup:.2f}{of}, efficiency {efficiency}"
        yield "peak memory", figures.memory(measurement.peak_memory_bytes)
        derived = {
            "arithmetic": figures.arithmetic(measurement),
            "energy": figures.energy(measurement),
        }
        yield from ((what, text) for what, text in derived.items() if text)
        yield from ((words_of(n), text) for n, text in figures.metrics(measurement).items())
    if scaled := scaling_figures(outcome):
        yield "collectives of a step", scaled.collectives
        yield "slowest rank", scaled.slowest_rank
        yield "all-reduce", scaled.all_reduce
    if environment is not None:
        yield "machine class", environment.machine_class
        yield "node", environment.node
    yield from _arms(outcome)
    if outcome.published:
        published = outcome.published
        yield (
            "published",
            f"{published['throughput']} {published['unit']}/s on {published['machine_class']}",
        )
        yield "published in", f"{published['document']}, {published['table']}"
    if commit := _commit(outcome):
        yield "commit", commit
    yield "measured", f"{outcome.time}, in {figures.duration(outcome.elapsed_s)}"
    if outcome.taken_from:
        yield "taken from", outcome.taken_from
    if outcome.folder:
        yield "records", outcome.folder
