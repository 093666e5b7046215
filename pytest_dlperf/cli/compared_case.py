"""The case and the bench of ``dlperf compare``: a suite of a checkout, or a program."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_dlperf.cases.selection import Wish, select
from pytest_dlperf.core.case import Case, Protocol
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.place import Place
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.plan import LAUNCHERS
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.logs import registry
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_folder import make_session_folder
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_dlperf.core.arm import Arm
    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.flow.watcher import Watcher


def bench_of(
    *,
    before: Arm,
    now: Arm,
    rule: Rule,
    here: Path,
    workdir: Path,
    session: str,
    setup: str,
    links: Sequence[str],
    watcher: Watcher,
) -> Bench:
    """Return the bench of one comparison, typed in the folder ``here``.

    Raises ``UsageError`` if ``workdir`` cannot be written.
    """
    try:
        folder, _ = make_session_folder(workdir, session)
    except OSError as error:
        raise UsageError(
            f"cannot write logs to {workdir}: {error.strerror}; name another folder with --workdir"
        ) from error
    return Bench(
        devices=detect(),
        store=BaselineStore(here / "baselines"),
        rule=rule,
        runs=SessionRuns(folder),
        watcher=watcher,
        folder=folder,
        rootdir=here,
        workdir=workdir,
        place=Place(python=sys.executable),
        shared=workdir,
        against=before,
        now=now,
        arms=Arms(
            folder=workdir / "arms",
            rootdir=here,
            python=sys.executable,
            setup=setup,
            links=links,
            execute=execute,
        ),
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
        for selected in select(declared, wish, bench.machine)
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
    gpus = arguments.gpus or (0 if arguments.cpus else min(1, bench.devices.visible_gpus))
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
