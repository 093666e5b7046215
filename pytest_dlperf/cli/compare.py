"""``dlperf compare --a X --b Y``: whether a training is slower with Y than with X, in pairs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.stdout import say
from pytest_dlperf.core.arm import KINDS, Arm, HereArm, parse_arm
from pytest_dlperf.core.case import PRECISIONS, SIZES
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import BAD, GOOD, Rule, Verdict


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf``."""
    compare = commands.add_parser(
        "compare",
        help="a training in two arms, run for run on this machine",
        description=f"An arm is {KINDS}; HEAD or an empty text is this environment as it is.",
    )
    compare.add_argument("--a", required=True, metavar="ARM", help="what is compared with")
    compare.add_argument("--b", required=True, metavar="ARM", help="what is judged")
    compare.add_argument("--suite", metavar="NAME", help="a case of perf_tests/ in this checkout")
    compare.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    compare.add_argument("--precision", choices=PRECISIONS, default="fp32")
    compare.add_argument("--size", choices=SIZES, help="tiny on CPUs, full on GPUs")
    devices = compare.add_mutually_exclusive_group()
    devices.add_argument(
        "--cpus", type=extract_command.positive, metavar="N", help="CPU processes"
    )
    devices.add_argument("--gpus", type=extract_command.positive, metavar="N")
    for name in ("iterations", "warmup", "max-runs"):
        compare.add_argument(f"--{name}", type=extract_command.positive, metavar="N")
    compare.add_argument("--tolerance", metavar="SHARE", help="3%% or 0.03")
    compare.add_argument(
        "--batch-size-per-device",
        type=extract_command.positive,
        default=1,
        metavar="N",
        help="of COMMAND: the work of one iteration of one rank",
    )
    compare.add_argument("--log-format", default="", help="how the log of COMMAND is read")
    compare.add_argument(
        "--launcher", default="auto", help="of COMMAND; none if it starts its ranks itself"
    )
    compare.add_argument(
        "--setup", default="", metavar="COMMAND", help="run once in the tree of a git ref"
    )
    compare.add_argument(
        "--link", action="append", default=[], metavar="PATH", help="untracked, linked into it"
    )
    compare.add_argument("--workdir", type=Path, default=Path(".dlperf"), metavar="DIR")
    compare.add_argument("--strict", action="store_true", help="fail whatever was not judged")
    compare.add_argument("--json", action="store_true", help="JSON alone on standard output")
    compare.add_argument("command", nargs="*", metavar="-- COMMAND", help="a training's own words")
    compare.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.compared_case import bench_of, case_of_command, case_of_suite
    from pytest_dlperf.flow.pipeline import run_case
    from pytest_dlperf.launch.arms.git import Preparation

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
        rule=rule,
        here=here,
        workdir=here / arguments.workdir,
        preparation=Preparation(setup=arguments.setup, links=tuple(arguments.link)),
    )
    case = (case_of_suite if arguments.suite else case_of_command)(arguments, bench, here)
    outcome = run_case(case, bench, workload_folder=str(here))
    if arguments.json:
        text = json.dumps(results_to_json([outcome]), indent=1, sort_keys=True, allow_nan=False)
    else:
        text = f"{outcome.judgement.verdict}: {_sentence(outcome, now)}"
    say(text)
    failing = set(Verdict) - GOOD if arguments.strict else BAD
    unaffected = outcome.against is not None and outcome.against.unaffected
    return 1 if outcome.judgement.verdict in failing and not unaffected else 0


def _arm(text: str, what: str) -> Arm:
    return HereArm() if text.strip() in {"", "HEAD"} else parse_arm(text, what=what)


def _sentence(outcome: Outcome, now: Arm) -> str:
    reason = outcome.judgement.reason.replace("--dlperf-", "--")
    return f"{now.name}: {reason}" if outcome.measurement is not None else reason
