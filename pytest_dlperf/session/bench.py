"""Make what a session gives to every case: its hosts, its stored numbers, and its policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.arm import Reported
from pytest_dlperf.core.run import LaunchPlan, Run
from pytest_dlperf.core.verdict import NEVER
from pytest_dlperf.flow.bench import Bench, Policy, SideBySide, Stored
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.holding import GpuUse
from pytest_dlperf.flow.hosts import Hosts
from pytest_dlperf.flow.same_code import reported_here
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.report import figures
from pytest_dlperf.session.folder import digest_of_inherited
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.session.resources import Resources

#: Seconds between two lines about what prepares an arm.
_TOLD_EVERY_S: Final = 10


def make_bench(resources: Resources) -> Bench:
    """Return the bench of a session; the time of its budget starts."""
    _ = resources.checkout  # as it is before anything is measured
    settings = resources.settings
    budget = None if settings.budget_s is None else Budget.starting_now(settings.budget_s)
    against, arms = settings.against, _arms(settings, resources.watcher)
    # The process of xdist's controller reads those of its workers
    inherited = "" if resources.folder_of_workers else digest_of_inherited()
    return Bench(
        hosts=_hosts(resources, budget),
        stored=Stored(store=resources.store, published=settings.published),
        policy=_policy(settings, budget),
        runs=SessionRuns(resources.folder, inherited=inherited),
        watcher=resources.watcher,
        workdir=settings.workdir,
        logs=resources.logs,
        traces=settings.cost,
        cost_device=settings.cost_device,
        interrupted=resources.ending.later,
        side_by_side=None if against is None else SideBySide(against=against, arms=arms),
        arms=arms,
    )


def _hosts(resources: Resources, budget: Budget | None) -> Hosts:
    settings, devices, folder = resources.settings, resources.devices, resources.folder
    place = settings.place
    reported = Reported()
    if settings.second_stage != NEVER:
        reported = reported_here(settings.rootdir, folder)
    return Hosts(
        devices=devices,
        place=place,
        rootdir=settings.rootdir,
        import_folders=settings.import_folders,
        folder=folder,
        shared=settings.workdir / (place.node_part.name if place.node_part else ""),
        nodes=resources.nodes,
        pinned_machine_class=settings.machine_class,
        share_host=settings.share_host,
        reported=reported,
        gpu_use=GpuUse(
            choice=settings.busy_gpus,
            names=tuple(gpu.name for gpu in devices.gpus),
            prefix=place.prefix,
            budget=budget,
        ),
    )


def _policy(settings: Settings, budget: Budget | None) -> Policy:
    return Policy(
        rule=settings.rule,
        inject=settings.inject,
        budget=budget,
        pairs=settings.pairs,
        confirm=settings.second_stage,
        explain=settings.explain,
        data=settings.data,
        frameworks_asked=settings.frameworks or (),
        runs_nothing=settings.runs_nothing,
    )


def _arms(settings: Settings, watcher: Watcher) -> Arms:
    return Arms(
        folder=settings.workdir / "arms",
        rootdir=settings.rootdir,
        python=settings.place.python,
        preparation=Preparation(setup=settings.arm_setup, links=tuple(settings.arm_links)),
        execute=lambda plan: _execute_told(plan, watcher),
    )


def _execute_told(plan: LaunchPlan, watcher: Watcher) -> Run:
    """Run what prepares an arm; every ten seconds a line says that it goes on."""
    began_s = time.monotonic()

    def tick(_: Path) -> None:
        if (tens := int(time.monotonic() - began_s) // _TOLD_EVERY_S) > 0:
            took = figures.duration(tens * _TOLD_EVERY_S)
            log = Path(plan.workdir) / "output.log"
            watcher.queued("dlperf", f"prepares the other version, {took} so far; see {log}")

    return execute(plan, on_tick=tick)
