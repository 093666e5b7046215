"""The header of a session: how it runs, and which cases were left out and why."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.cost import COST_CLASS
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.verdict import NEVER
from pytest_dlperf.flow.confirm import pairs_may_follow
from pytest_dlperf.flow.scheduled import Jobs
from pytest_dlperf.report.figures import span
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session.case_items import selected_of
from pytest_dlperf.session.estimate import Forecast, Time, alike
from pytest_dlperf.store.history import notes

if TYPE_CHECKING:
    from pytest_dlperf.session.session import Session


if TYPE_CHECKING:
    import pytest


def header(config: pytest.Config, session: Session, owned: Sequence[str]) -> list[str]:
    """Return the lines that say how this session runs."""
    session.header_shown = True
    return [shown(line) for line in _header(config, session, owned)]


def _header(config: pytest.Config, session: Session, owned: Sequence[str]) -> list[str]:
    if session.resources.jobs is not None:
        return _jobs_lines(session.resources.jobs, session)
    settings, devices = session.settings, session.resources.devices
    if settings.cost:
        return [*_cost_lines(session, config), *_common_lines(session, owned)]
    classes = [f"{len(devices.gpus)} GPUs"] if devices.gpus else []
    if devices.gpu_problem:
        classes.append(f"unusable GPU ({devices.gpu_problem})")
    pinned = (
        f", machine class pinned to {settings.machine_class}" if settings.machine_class else ""
    )
    machine_class = devices.machine_class("gpu" if devices.gpus else "cpu")
    lines = [
        f"dlperf: {settings.machine_class or machine_class}"
        f"{pinned}, {' '.join(classes) or 'no GPU'}, {_cores(devices.visible_cores)}; "
        f"{_chosen(session)}; baselines: {relative(settings.baselines, config)}"
    ]
    place = settings.place
    if place.foreign:
        lines.append(f"dlperf: ranks start {place.words}")
    if (part := place.node_part) is not None:
        lines.append(
            f"dlperf: part of node {part.node_rank}, which meets the others at "
            f"{part.master_addr}:{part.master_port}; node 0 judges, by what all "
            f"ranks write to {settings.workdir}"
        )
    if settings.against is not None:
        lines.append(
            f"dlperf: every run has a partner with {settings.against.name}; no baseline is read"
        )
    return [*lines, *_common_lines(session, owned)]


def _cost_lines(session: Session, config: pytest.Config) -> list[str]:
    settings = session.settings
    folder = relative(settings.baselines / COST_CLASS, config)
    compared = (
        f"baselines: {folder}"
        if settings.against is None
        else f"compared with {settings.against.name}, no baseline is read"
    )
    lines = [
        "dlperf: the cost of a step, traced here as on GPUs, at size "
        f"{settings.size or 'full'}; nothing is timed; {compared}"
    ]
    if settings.place.foreign:
        lines.append(f"dlperf: traces start {settings.place.words}")
    return lines


def _common_lines(session: Session, owned: Sequence[str]) -> list[str]:
    """Return the lines that every session may have."""
    lines = []
    if session.settings.observe:
        lines.append("dlperf: mode observe: nothing fails but errors")
    if owned:
        lines.append(
            f"dlperf: {', '.join(owned)} belongs to another plugin or conftest; use --dlperf-"
            f"{owned[0].removeprefix('--')} for this one"
        )
    return lines


def collected(
    config: pytest.Config,
    session: Session,
    owned: Sequence[str],
    items: Sequence[pytest.Item],
) -> list[str]:
    """Return what to say after collection: how cases run, what was left out and why, how long."""
    if config.get_verbosity() < 0:
        return []  # the summary's line is all
    lines = [] if session.header_shown else header(config, session, owned)
    if session.resources.jobs is not None:
        lines += _target(session.resources.jobs)
    reasons = Counter(session.records.left_out)
    lines += [
        f"dlperf: {count} {'case' if count == 1 else 'cases'} left out: {reason}"
        for reason, count in sorted(reasons.items())
    ]
    measures = (
        session.resources.jobs is None
        and session.resources.logs is None
        and not session.settings.cost
        and not session.settings.runs_nothing
    )
    cases = [selected.case for item in items if (selected := selected_of(item))]
    if measures and cases and not config.option.collectonly:
        lines.append(f"dlperf: {_estimate(cases, session)}")
    return [shown(line) for line in lines]


def _estimate(cases: Sequence[Case], session: Session) -> str:
    """Return how long the session may take, and let its live view know."""
    settings = session.settings
    run_times = notes.read_run_times(settings.workdir)

    def machine_class(case: Case) -> str:
        return settings.machine_class or session.resources.devices.machine_class(
            case.layout.device, case.layout.devices_per_node
        )

    def time_of(case: Case, launches: int) -> Time:
        hardware, in_pair = machine_class(case), launches > 1
        others = notes.run_times_of_others(run_times, case, hardware, in_pair=in_pair)
        return Time(
            run_times.get(notes.run_key(case, hardware, in_pair=in_pair)),
            about=alike(CaseId.of(case), others),
        )

    @functools.cache
    def may_follow(commit: str, dirty: bool) -> bool:
        return pairs_may_follow(
            commit,
            dirty=dirty,
            rootdir=settings.rootdir,
            baselines=settings.baselines,
        )

    def may_need_pairs(case: Case) -> bool:
        if settings.second_stage == NEVER:
            return False
        try:
            baseline = session.resources.store.find(machine_class(case), case.suite, case.id)
        except DlperfError:
            return False  # the case itself reports it, as its error
        last = baseline.level[-1] if baseline is not None and baseline.level else None
        return last is not None and (
            bool(settings.inject) or may_follow(last.commit, last.may_be_modified)
        )

    forecast = Forecast.of(
        cases,
        time_of,
        pairs=settings.against is not None,
        may_need_pairs=may_need_pairs,
    )
    session.resources.watcher.expect(forecast)
    budget = ""
    if settings.budget_s is not None:
        budget = f"; --dlperf-budget ends it after {span(settings.budget_s, settings.budget_s)}"
    return f"{forecast.words()}{budget}"


def _jobs_lines(jobs: Jobs, session: Session) -> list[str]:
    scheduling = jobs.scheduling
    lines = [
        f"dlperf: each case is a job of {scheduling.name}, at most {scheduling.jobs} in flight; "
        f"logs: {jobs.folder}"
    ]
    if session.settings.place.prefix:
        lines.append(f"dlperf: in a job ranks start {session.settings.place.words}")
    if session.settings.observe:
        lines.append("dlperf: mode observe: nothing fails but errors")
    return lines


def _cores(count: int) -> str:
    return f"{count} {'core' if count == 1 else 'cores'}"


def _target(jobs: Jobs) -> list[str]:
    """Return what the probe job found on the nodes; nothing without a probe."""
    if not (jobs.was_asked and jobs.knows_target):
        return []
    devices = jobs.devices
    machine_class = devices.machine_class("gpu" if devices.gpus else "cpu")
    gpus = f"{len(devices.gpus)} GPUs" if devices.gpus else "no GPU"
    problem = f" ({devices.gpu_problem})" if devices.gpu_problem else ""
    return [f"dlperf: nodes: {machine_class}, {gpus}{problem}, {_cores(devices.visible_cores)}"]


def _chosen(session: Session) -> str:
    settings, devices = session.settings, session.resources.devices
    if settings.from_logs is not None:
        return f"judging logs in {settings.from_logs}, starting nothing"
    if settings.gpus or settings.cpus:
        asked = [f"{n} GPUs" for n in settings.gpus or ()]
        asked += [f"{n} CPU processes" for n in settings.cpus or ()]
        return "asked for " + ", ".join(asked)
    if devices.visible_gpus or devices.gpu_problem:
        return "on the GPUs that there are, at size " + (settings.size or "full")
    return "on CPU processes, at size " + (settings.size or "tiny where a suite has it")


def relative(path: Path, config: pytest.Config) -> str:
    """Return a path as people read it: relative to the session's root where it is below it."""
    return (
        str(path.relative_to(config.rootpath))
        if path.is_relative_to(config.rootpath)
        else str(path)
    )
