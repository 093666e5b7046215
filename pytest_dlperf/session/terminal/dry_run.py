"""``--dlperf-list`` and ``--dlperf-dry-run``: show what a session would do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.cases.selection import Selected
from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.metrics import COUNT
from pytest_dlperf.core.place import hosts_of
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.cost import TRACE
from pytest_dlperf.flow.scheduled import Jobs, Planned
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan
from pytest_dlperf.launch.remote.over_hosts import commands_on
from pytest_dlperf.launch.schedulers.slurm_job import sbatch_command, script_text
from pytest_dlperf.launch.trace import make_trace_plan
from pytest_dlperf.report import figures, json_
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.session import collection
from pytest_dlperf.session.case_items import selected_of
from pytest_dlperf.session.exits import write_line
from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.commands import published_text, state_text

if TYPE_CHECKING:
    from pytest_dlperf.session.session import Session


if TYPE_CHECKING:
    import pytest


_HEADINGS: Final = ("case", "baseline", "published", "accuracy", "time to train", "runs here")
#: Why no run of this tool can check a published accuracy or time.
_NEEDS: Final = "needs full training"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRow:
    """One case: whether it runs here, its baseline, and the published number."""

    case_id: str
    #: ``yes``, or why not.
    runs_here: str
    baseline: str
    published: str = figures.ABSENT
    #: As published: a short run cannot measure them.
    accuracy_percent: float | None = None
    time_to_train_s: float | None = None
    #: The slowdown up to which the marker lets it pass; None where it does not say.
    tolerance: float | None = None
    #: What the marker's ``metrics`` gates, in its own form.
    metrics: Mapping[str, str | float | None] = field(default_factory=dict)
    #: False for a stored number that no test declares.
    declared: bool = True


def to_json(rows: Sequence[ListRow]) -> dict[str, Any]:
    """Return the rows in plain JSON types."""
    return {
        "format": 1,
        "cases": [
            {
                "id": row.case_id,
                "declared": row.declared,
                "runs_here": row.runs_here,
                "baseline": row.baseline,
                "published": row.published,
                "accuracy_percent": row.accuracy_percent,
                "time_to_train_s": row.time_to_train_s,
                "tolerance": row.tolerance,
                "metrics": dict(row.metrics),
            }
            for row in rows
        ],
    }


def render(rows: Sequence[ListRow]) -> list[str]:
    """Return the lines of a table; the last column is the reason why a case does not run."""
    return aligned([_HEADINGS, *map(_cells, rows)])


def _cells(row: ListRow) -> tuple[str, ...]:
    accuracy, seconds = row.accuracy_percent, row.time_to_train_s
    return (
        row.case_id,
        row.baseline,
        row.published,
        figures.ABSENT if accuracy is None else f"{figures.accuracy(accuracy)}, {_NEEDS}",
        figures.ABSENT if seconds is None else f"{figures.exact(seconds)} s, {_NEEDS}",
        row.runs_here,
    )


def preview(jobs: Jobs) -> list[str]:
    """Return the lines of what would be submitted for every case; nothing is."""
    return [line for planned in jobs.planned for line in _batch_job(planned, jobs)]


def _batch_job(planned: Planned, jobs: Jobs) -> list[str]:
    request = jobs.request(planned)
    script = [f"    {line}" for line in script_text(request).splitlines()]
    return ["", planned.case.id, f"  {shlex.join(sbatch_command(request))}", *script]


_ORPHAN = "no collected test declares it (dlperf baselines prune looks at all of them)"


def print_instead_of_running(
    items: Sequence[pytest.Item], session: Session, config: pytest.Config
) -> None:
    """Print the list of cases, or the commands, in place of running anything."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if session.settings.list_only:
        rows = list_rows(items, session)
        if config.option.keyword or config.option.markexpr:
            # A number whose case was not chosen may well have one.
            rows = [row for row in rows if row.declared]
        lines = [*render(rows), "", f"{len(rows)} rows; nothing was run"]
        path = session.settings.reports.get("json")
        if path is not None:
            json_.write_text(path, json.dumps(to_json(rows)))
    else:
        lines = dry_run(items, session)
    for line in lines:
        write_line(reporter, line)


def list_rows(items: Sequence[pytest.Item], session: Session) -> list[ListRow]:
    """Return a row for every case that is declared, and for every stored number without one."""
    by_item = {item: selected.case for item in items if (selected := selected_of(item))}
    cases = list(by_item.values())
    rows = [_list_row(item, case, session) for item, case in by_item.items()]
    without_layout = {case.id_without_layout for case in cases}
    declared = {case.id for case in cases}
    entries, broken = session.resources.store.readable()
    rows += [
        ListRow(
            case_id=Path(error.subject).name,
            runs_here="unknown",
            baseline=f"broken: {error}",
            published=figures.ABSENT,
            declared=False,
        )
        for error in broken
    ]
    for entry in entries:
        baseline = entry.baseline
        published = baseline.source.kind == "published"
        # --gpus replaces layouts: a measured number belongs to the case of any layout.
        has_case = baseline.case_id in declared or (
            not published and baseline.case_id.rpartition("-")[0] in without_layout
        )
        if not has_case:
            rows.append(
                ListRow(
                    case_id=baseline.case_id,
                    runs_here="no case declares it" if published else _ORPHAN,
                    baseline="none" if published else state_text(baseline),
                    published=published_text([baseline]) if published else figures.ABSENT,
                    accuracy_percent=_published_fact([baseline], "accuracy_percent"),
                    time_to_train_s=_published_fact([baseline], "time_to_train_s"),
                    declared=False,
                )
            )
    return rows


def _list_row(item: pytest.Item, case: Case, session: Session) -> ListRow:
    resources = session.resources
    machine_class = resources.bench.hosts.machine_class(case)
    try:
        asked = resources.jobs is None or session.settings.machine_class is not None
        if session.settings.cost:
            cost = cost_file.read(resources.store.root, case.suite, case.id)
            baseline = "none" if cost is None else "a cost"
        else:
            stored = resources.store.find(machine_class, case.suite, case.id)
            baseline = state_text(stored) if asked else "unknown: no node was asked"
    except DlperfError as error:
        baseline = f"broken: {error}"
    numbers: Sequence[Baseline] = ()
    try:
        numbers = resources.store.published(case.id, case.suite, case.workload)
        published = published_text(numbers)
    except DlperfError as error:
        published = f"broken: {error}"
    return ListRow(
        case_id=case.id,
        runs_here=_runs_here(item, case, session),
        baseline=baseline,
        published=published,
        accuracy_percent=_published_fact(numbers, "accuracy_percent"),
        time_to_train_s=_published_fact(numbers, "time_to_train_s"),
        tolerance=case.tolerance,
        metrics={g.name: COUNT if g.is_count else g.tolerance for g in case.metrics},
    )


def _runs_here(item: pytest.Item, case: Case, session: Session) -> str:
    place = session.settings.place
    if session.resources.jobs is not None:
        return f"as a job of {session.resources.jobs.scheduling.name}"
    if case.misfit:
        return case.misfit
    if refusal := _refusal(case, session.resources.bench):
        return refusal.cause
    if left_out := collection.left_out(item, case, session, session.resources.machine):
        return left_out
    asks = place.foreign and case.framework != NO_FRAMEWORK
    return f"if {case.framework} is {place.words}" if asks else "yes"


def _refusal(case: Case, bench: Bench) -> DlperfError | None:
    """Return the error that says why ``case`` cannot run here; None if it can."""
    try:
        bench.check(case)
    except DlperfError as error:
        return error
    return None


def _published_fact(published: Sequence[Baseline], name: str) -> float | None:
    """Return the number that the first document states along with its throughput."""
    facts = (baseline.facts.get(name) for baseline in published)
    return next((fact for fact in facts if isinstance(fact, int | float)), None)


def dry_run(items: Sequence[pytest.Item], session: Session) -> list[str]:
    """Return the lines of ``--dlperf-dry-run``: command and environment of every case."""
    lines: list[str] = []
    if session.resources.jobs is not None:
        for selected in filter(None, map(selected_of, items)):
            if selected.error:
                lines += ["", selected.case.id, f"  # not here: {selected.error}"]
        return [*preview(session.resources.jobs), *lines, "", "nothing was submitted"]
    against = session.settings.against
    if against is not None:
        lines += ["", f"# each as often with {against.name}, in turns; that arm is not made here"]
    for item in items:
        chosen = selected_of(item)
        if chosen is not None:
            target = session.resources.bench.target(chosen.case, str(item.path.parent))
            lines += ["", chosen.case.id, *_dry_run_case(chosen, target, session)]
    return [*lines, "", "nothing was run"]


def _dry_run_case(selected: Selected, target: Target, session: Session) -> list[str]:
    case, bench, hosts = selected.case, session.resources.bench, session.settings.hosts
    several = bool(hosts) and case.layout.nodes > 1
    target = replace(target, hosts=())  # the commands are shown, not the channels
    lines = []
    if not several:
        refusal = selected.error
        if not refusal and (error := _refusal(case, bench)):
            refusal = error.words(below=case.id)
        lines += [f"  # not here: {refusal}"] if refusal else []
    try:
        folder = bench.folder / case.id
        plan = (
            make_trace_plan(case, target, folder / TRACE)
            if bench.traces and not case.command
            else make_plan(case, target, folder / "run1")
        )
        chosen = hosts_of(case.layout, hosts) if several else ()
    except DlperfError as error:
        return [*lines, f"  # no command: {error}"]
    environment = [f"  {k}={shlex.quote(value)} \\" for k, value in sorted(plan.env.items())]
    if plan.cwd:
        lines.append(f"  cd {shlex.quote(plan.cwd)}")
    if not several:
        return [*lines, *environment, f"  {shlex.join(plan.argv)}"]
    lines.append("  # threads per rank as this machine's cores allow, not those of the hosts")
    for host, argv in commands_on(chosen, plan):
        lines += [f"  # on {host.name}", *environment, f"  {shlex.join(argv)}"]
    return lines
