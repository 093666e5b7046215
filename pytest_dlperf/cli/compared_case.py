"""The case and the bench of ``dlperf compare``: a suite of a checkout, or a program."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_dlperf.cases.selection import Wish, select
from pytest_dlperf.core.arm import Arm
from pytest_dlperf.core.case import Case, Protocol
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.place import Place
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.flow.bench import Bench, Policy, SideBySide, Stored
from pytest_dlperf.flow.hosts import Hosts
from pytest_dlperf.flow.user_program import known_unit
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.launchers import LAUNCHERS
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.logs import registry
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_runs import SessionRuns, make_session_folder


def bench_of(
    before: Arm, now: Arm, *, rule: Rule, here: Path, workdir: Path, preparation: Preparation
) -> Bench:
    """Return the bench of one comparison of two arms, started in the folder ``here``.

    Raises ``UsageError`` if ``workdir`` cannot be written.
    """
    session = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        folder, _ = make_session_folder(workdir, session)
    except OSError as error:
        raise UsageError(
            f"cannot write logs to {workdir}: {error.strerror}; name another folder with --workdir"
        ) from error
    arms = Arms(
        folder=workdir / "arms",
        rootdir=here,
        python=sys.executable,
        preparation=preparation,
        execute=execute,
    )
    return Bench(
        hosts=Hosts(
            devices=detect(),
            place=Place(python=sys.executable),
            rootdir=here,
            folder=folder,
            shared=workdir,
        ),
        stored=Stored(store=BaselineStore(here / "baselines")),
        policy=Policy(rule=rule),
        runs=SessionRuns(folder),
        watcher=_Lines(),
        workdir=workdir,
        side_by_side=SideBySide(against=before, now=now, arms=arms),
    )


def case_of_suite(arguments: argparse.Namespace, bench: Bench, here: Path) -> Case:
    """Return the case of the suite in ``here`` that the options name; raise ``UsageError``."""
    suite = arguments.suite
    if not (here / "perf_tests" / suite / "cases.py").is_file():
        known = sorted(path.parent.name for path in here.glob("perf_tests/*/cases.py"))
        raise UsageError(
            f"--suite={suite}: there is no perf_tests/{suite}/cases.py here; "
            + (f"known are {', '.join(known)}" if known else "type it in a checkout that has some")
        )
    sys.path.insert(0, str(here))
    declared: Sequence[Case] = importlib.import_module(f"perf_tests.{suite}.cases").CASES
    wish = Wish(
        gpus=arguments.gpus and (arguments.gpus,),
        cpus=arguments.cpus and (arguments.cpus,),
        size=arguments.size,
        frameworks=(arguments.framework,),
    )
    found = [
        selected.case
        for selected in select(declared, wish, bench.hosts.machine)
        if not selected.left_out and selected.case.precision == arguments.precision
    ]
    if not found:
        raise UsageError(
            f"--suite={suite}: no case of {arguments.framework} in {arguments.precision} runs on "
            "these devices; look at pytest perf_tests --dlperf-list"
        )
    smallest = min(found, key=lambda case: case.world_size)
    return replace(smallest, protocol=_protocol(arguments, smallest.protocol))


def case_of_command(arguments: argparse.Namespace, bench: Bench, here: Path) -> Case:
    """Return the program of the command line as a case; raise ``UsageError``."""
    if arguments.launcher not in {"auto", *LAUNCHERS}:
        raise UsageError(
            f"--launcher={arguments.launcher}: known are {', '.join(['auto', *LAUNCHERS])}"
        )
    if arguments.log_format:
        registry.named(arguments.log_format)
    gpus = arguments.gpus or (0 if arguments.cpus else min(1, bench.hosts.devices.visible_gpus))
    return Case(
        suite="command",
        framework=arguments.framework,
        precision=arguments.precision,
        batch_size_per_device=arguments.batch_size_per_device,
        layout=Layout(
            nodes=1,
            devices_per_node=gpus or arguments.cpus or 1,
            device="gpu" if gpus else "cpu",
        ),
        command=tuple(arguments.command),
        log_format=arguments.log_format,
        launcher=arguments.launcher,
        unit="",
        protocol=_protocol(arguments, Protocol()),
        cpu_ranks_max=arguments.cpus or 1,
    )


def _protocol(arguments: argparse.Namespace, declared: Protocol) -> Protocol:
    values: dict[str, Any] = {
        name: value
        for name in ("iterations", "warmup", "max_runs")
        if (value := getattr(arguments, name)) is not None
    }
    if "max_runs" in values:
        values["runs"] = min(declared.runs, values["max_runs"])
    return replace(declared, **values)


class _Lines:
    """Prints the progress of the runs on standard error."""

    def __init__(self) -> None:
        self._of = ""

    def notice(self, case: Case, what: str) -> None:
        """Print why the case waits."""
        self._print(f"{case.id}: {what}")

    def run_starts(self, case: Case, number: int, of: int) -> None:
        """Remember which run this is."""
        self._of = f"{number}/{max(number, of)}"

    def tick(self, case: Case, workdir: Path) -> None:
        """Do nothing."""

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Print what a run measured."""
        disturbed = f"; does not count: {run.disturbed}" if run.disturbed else ""
        unit = known_unit(case)
        self._print(f"{case.id} run {self._of}: {run.throughput:.4g} {unit}/s{disturbed}")

    def queued(self, name: str, words: str) -> None:
        """Do nothing: no scheduler is asked here."""

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
