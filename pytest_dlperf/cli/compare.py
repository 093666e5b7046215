"""``dlperf compare --a X --b Y``: whether a training is slower with Y than with X, in pairs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_dlperf.cases.selection import CaseRequest, select
from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.advice import in_words_of
from pytest_dlperf.cli.parser import add_json, add_shares, add_workdir
from pytest_dlperf.cli.pytest_root import root_of
from pytest_dlperf.cli.stdout import say, say_error, say_json
from pytest_dlperf.core.arm import KINDS, Arm, HereArm, parse_arm
from pytest_dlperf.core.case import PRECISIONS, SIZES, Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.option_names import command_options
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.place import Place
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import BAD, GOOD, Rule, Verdict
from pytest_dlperf.flow.bench import Bench, Policy, SideBySide, Stored
from pytest_dlperf.flow.holding import GpuUse
from pytest_dlperf.flow.hosts import Hosts
from pytest_dlperf.flow.log_unit import known_unit
from pytest_dlperf.flow.pipeline import run_case
from pytest_dlperf.flow.watcher import STARTING
from pytest_dlperf.judge.verdict import reworded
from pytest_dlperf.judge.words.options import Options
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.launchers import LAUNCHERS
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.logs import registry
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_runs import SessionRuns, make_session_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = f"An arm is {KINDS}; HEAD or an empty text is this environment as it is."
    parser.add_argument("--a", required=True, metavar="ARM", help="what is compared with")
    parser.add_argument("--b", required=True, metavar="ARM", help="what is judged")
    parser.add_argument("--suite", metavar="NAME", help="a case of perf_tests/ in this checkout")
    parser.add_argument(
        "--framework", choices=FRAMEWORKS, default="torch", help="what it trains with (torch)"
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="precision of the training (fp32)"
    )
    parser.add_argument(
        "--size", choices=SIZES, help="size of the model (tiny on CPUs, full on GPUs)"
    )
    devices = parser.add_mutually_exclusive_group()
    devices.add_argument(
        "--cpus", type=extract_command.positive, metavar="N", help="CPU processes"
    )
    devices.add_argument(
        "--gpus", type=extract_command.positive, metavar="N", help="GPUs (1 where there is one)"
    )
    for name, text in (
        ("iterations", "iterations of a run, warm-up included (those of the suite, else 150)"),
        ("warmup", "iterations before the measured window (those of the suite, else 50)"),
        ("max-runs", "at most this many pairs of runs (those of the suite, else 10)"),
    ):
        parser.add_argument(f"--{name}", type=extract_command.positive, metavar="N", help=text)
    add_shares(parser, "tolerance", tolerance="that of the suite, else 3%%")
    parser.add_argument(
        "--batch-size-per-device",
        type=extract_command.positive,
        default=1,
        metavar="N",
        help="of COMMAND: the work of one iteration of one rank (1)",
    )
    parser.add_argument(
        "--log-format",
        default="",
        metavar="NAME",
        help="of COMMAND: the format of its log, where its look is not enough",
    )
    parser.add_argument(
        "--launcher",
        default="auto",
        metavar="NAME",
        help="of COMMAND: what starts its ranks; none if it does so itself (auto)",
    )
    parser.add_argument(
        "--setup", default="", metavar="COMMAND", help="run once in the tree of a git ref"
    )
    parser.add_argument(
        "--link", action="append", default=[], metavar="PATH", help="untracked, linked into it"
    )
    add_workdir(parser, "folder of logs and records")
    parser.add_argument("--strict", action="store_true", help="fail also what was not judged")
    add_json(parser)
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="a training's own words")
    parser.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    before, now = _arm(arguments.a, "--a"), _arm(arguments.b, "--b")
    if bool(arguments.suite) is bool(arguments.command):
        raise UsageError(
            "give either --suite NAME, or the words of a training after --: -- python train.py"
        )
    tolerance = arguments.tolerance
    rule = Rule(
        tolerance=None if tolerance is None else parse_share(tolerance, what="--tolerance")
    )
    here = Path.cwd()
    bench = bench_of(
        before,
        now,
        policy=Policy(rule=rule, options=command_options(arguments.own_options)),
        here=here,
        workdir=here / arguments.workdir,
        preparation=Preparation(setup=arguments.setup, links=tuple(arguments.link)),
    )
    case = (case_of_suite if arguments.suite else case_of_command)(arguments, bench, here)
    outcome = run_case(case, bench, workload_folder=str(here))
    options = Options(names=command_options(arguments.own_options))
    outcome = replace(outcome, judgement=reworded(outcome.judgement, options=options))
    if arguments.json:
        say_json(results_to_json([outcome]))
    else:
        say(f"{outcome.judgement.verdict}: {in_words_of(arguments, _sentence(outcome, now))}")
    failing = set(Verdict) - GOOD if arguments.strict else BAD
    unaffected = outcome.against is not None and outcome.against.unaffected
    return 1 if outcome.judgement.verdict in failing and not unaffected else 0


def _arm(text: str, what: str) -> Arm:
    return HereArm() if text.strip() in {"", "HEAD"} else parse_arm(text, what=what)


def _sentence(outcome: Outcome, now: Arm) -> str:
    text = outcome.judgement.text
    return f"{now.name}: {text}" if outcome.measurement is not None else text


def bench_of(
    before: Arm,
    now: Arm,
    *,
    policy: Policy,
    here: Path,
    workdir: Path,
    preparation: Preparation,
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
            import_folders=root_of(here, run_in=here).import_folders,
            folder=folder,
            shared=workdir,
            gpu_use=GpuUse(options=policy.options),
        ),
        stored=Stored(store=BaselineStore(here / "baselines")),
        policy=policy,
        runs=SessionRuns(folder),
        watcher=_Lines(),
        workdir=workdir,
        side_by_side=SideBySide(against=before, now=now, arms=arms),
        # Nothing follows the verdict, which is printed all the same
        interrupted=lambda interrupt: None,
    )


def case_of_suite(arguments: argparse.Namespace, bench: Bench, here: Path) -> Case:
    """Return the case of the suite in ``here`` that the options name; raise ``UsageError``."""
    suite = arguments.suite
    if not (here / "perf_tests" / suite / "cases.py").is_file():
        suites = sorted(path.parent.name for path in here.glob("perf_tests/*/cases.py"))
        raise UsageError(
            f"--suite={suite}: there is no perf_tests/{suite}/cases.py here; "
            + (
                f"known are {', '.join(suites)}"
                if suites
                else "type it in a checkout that has some"
            )
        )
    sys.path.insert(0, str(here))
    declared: Sequence[Case] = importlib.import_module(f"perf_tests.{suite}.cases").CASES
    request = CaseRequest(
        gpus=arguments.gpus and (arguments.gpus,),
        cpus=arguments.cpus and (arguments.cpus,),
        size=arguments.size,
        frameworks=(arguments.framework,),
    )
    cases = [
        selected.case
        for selected in select(declared, request, bench.hosts.machine)
        if not selected.left_out and selected.case.precision == arguments.precision
    ]
    if not cases:
        raise UsageError(
            f"--suite={suite}: no case of {arguments.framework} in {arguments.precision} runs on "
            "these devices; look at pytest perf_tests --dlperf-list"
        )
    smallest = min(cases, key=lambda case: case.world_size)
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
    asked = {
        name: value
        for name in ("iterations", "warmup", "max_runs")
        if (value := getattr(arguments, name)) is not None
    }
    return declared.with_asked(asked)


class _Lines:
    """Prints the progress of the runs on standard error."""

    def __init__(self) -> None:
        self._of = ""

    def notice(self, case: Case, what: str) -> None:
        """Print why the case waits."""
        self._print(f"{case.id}: {what}")

    def run_starts(self, case: Case, number: int, of: int, version: str = "") -> None:
        """Remember which run this is."""
        self._of = f"{number}/{max(number, of)}" + (f" ({version})" if version else "")

    def tick(self, case: Case, workdir: Path) -> None:
        """Do nothing."""

    def traces(self, case: Case, number: int, of: int, words: str) -> None:
        """Do nothing."""

    def profiles(self, case: Case, number: int, of: int, words: str) -> None:
        """Print that it begins."""
        if words == STARTING:
            self._print(f"{case.id} profile {number}/{of}")

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Print what a run measured."""
        disturbed = f"; does not count: {run.disturbed_in_brief}" if run.disturbed else ""
        unit = known_unit(case)
        self._print(f"{case.id} run {self._of}: {run.throughput:.4g} {unit}/s{disturbed}")

    def confirms(self, case: Case, against: str) -> None:
        """Do nothing: no stored session is compared with here."""

    def place(self) -> str:
        """Return nothing: an error's own words say where it was."""
        return ""

    def queued(self, name: str, words: str) -> None:
        """Do nothing: no scheduler is asked here."""

    def _print(self, text: str) -> None:
        say_error(text)
