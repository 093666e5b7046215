"""The console script ``dlperf``: the same stages without pytest.

Results go to standard output, messages to standard error. Exit codes: 0 nothing failed, 1
something was refused or is missing, 2 wrong usage or unreadable input.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.cli import (
    bisect_environment,
    check,
    compare,
    explain,
    extract,
    history,
    judge,
    nodes,
)
from pytest_dlperf.cli import (
    report as report_command,
)
from pytest_dlperf.cli.source_reports import audit
from pytest_dlperf.cli.stdout import say
from pytest_dlperf.core.errors import DlperfError, UsageError

if TYPE_CHECKING:
    from pytest_dlperf.store.baseline.store import BaselineStore


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``dlperf`` and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except DlperfError as error:
        _say(f"dlperf: {error}")
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dlperf", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="what is here to run on, and what is missing")
    doctor.add_argument("--json", action="store_true", help="JSON alone on standard output")
    doctor.add_argument("--hosts", metavar="n1:8,n2:8|FILE", help="look at these hosts as well")
    doctor.add_argument("--ssh", metavar="COMMAND", help="ssh with options, to reach them")
    doctor.add_argument("--python", default=sys.executable, metavar="PATH", help="Python there")
    doctor.set_defaults(run=_doctor)
    baselines = commands.add_parser(
        "baselines", help="look at stored baselines, and accept new ones"
    )
    actions = baselines.add_subparsers(required=True, metavar="ACTION")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="folder of the baselines (baselines/ here)",
    )
    common.add_argument("--json", action="store_true", help="JSON alone on standard output")
    listing = actions.add_parser(
        "list", parents=[common], help="every stored number and its source"
    )
    listing.set_defaults(run=_list)
    show = actions.add_parser("show", parents=[common], help="one baseline, whole")
    show.add_argument("case", help="case id, or a pattern with * that fits")
    show.set_defaults(run=_show)
    accept = actions.add_parser("accept", parents=[common], help="store what a session measured")
    accept.add_argument(
        "results", type=Path, nargs="+", help="file of --dlperf-json; several are one session"
    )
    accept.add_argument(
        "-k", dest="pattern", metavar="PATTERN", help="only case ids that hold this"
    )
    accept.add_argument("--reason", default="", help="why a changed level is accepted")
    accept.add_argument(
        "--anchor",
        action="store_true",
        help="hold later sessions to this level (of a release), however slowly they leave it",
    )
    accept.set_defaults(run=_accept)
    prune = actions.add_parser("prune", parents=[common], help="remove baselines without a case")
    prune.add_argument("paths", nargs="*", help="where the tests are (perf_tests)")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    prune.set_defaults(run=_prune)
    check.add_to(actions, common)
    report = commands.add_parser("report", help="environments and tables of results files")
    report_command.add_arguments(report)
    report.set_defaults(run=_report)
    extract.add_to(commands)
    judge.add_to(commands)
    audit.add_to(commands)
    compare.add_to(commands)
    explain.add_to(commands)
    bisect_environment.add_to(commands)
    nodes.add_to(commands)
    history.add_to(commands)
    return parser


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _print(text: str) -> None:
    # Documents and reasons hold what not every terminal can show
    say(text)


def _print_json(values: Any) -> None:
    _print(json.dumps(values, indent=1, sort_keys=True, allow_nan=False))


def _store(arguments: argparse.Namespace, *, may_be_missing: bool = False) -> BaselineStore:
    from pytest_dlperf.store.baseline.store import BaselineStore

    root: Path = arguments.baselines
    if not root.is_dir() and (root.exists() or not may_be_missing):
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    return BaselineStore(root)


def _list(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.store.baseline import commands

    rows = commands.list_rows(_store(arguments))
    if arguments.json:
        _print_json({"format": 1, "baselines": rows})
    else:
        _print(commands.render_list(rows))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.store.baseline import commands

    found = commands.show(_store(arguments), arguments.case)
    if arguments.json:
        _print_json(found)
    else:
        _print(commands.render_show(found))
    return 0


def _accept(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.flow.learn_noise import learn_noise, prior_of
    from pytest_dlperf.flow.pipeline import judge_again
    from pytest_dlperf.report import json_
    from pytest_dlperf.store.baseline import commands

    outcomes = json_.read_shards(arguments.results)
    store = _store(arguments, may_be_missing=True)
    changes = commands.accept(
        store,
        outcomes,
        pattern=arguments.pattern,
        reason=arguments.reason,
        anchor=arguments.anchor,
        judge_again=lambda outcome, baseline: judge_again(
            outcome, baseline, Rule(prior=prior_of(store, outcome))
        ),
    )
    if any(not change.refused for change in changes):
        for machine_class in {o.environment.machine_class for o in outcomes if o.environment}:
            learn_noise(store, machine_class)
    if arguments.json:
        _print_json(commands.changes_to_json(changes))
    else:
        for change in changes:
            (_say if change.refused else _print)(change.text)
    if not changes:
        named = ", ".join(map(str, arguments.results))
        raise UsageError(f"{named} holds no case that fits; look at -k")
    return 1 if any(change.refused for change in changes) else 0


def _prune(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.declared_cases import declared_cases, without_case
    from pytest_dlperf.store.baseline import commands

    store = _store(arguments)
    try:
        declared = declared_cases(arguments.paths or ["perf_tests"])
    except UsageError as error:
        raise UsageError(f"nothing was removed: {error}") from error
    entries = list(store.all())
    gone = {entry.baseline.case_id for entry in without_case(entries, declared)}
    known = {entry.baseline.case_id for entry in entries} - gone
    removed = commands.prune(store, known, dry_run=arguments.dry_run)
    if arguments.json:
        _print_json({"format": 1, "removed": [str(path) for path in removed]})
        return 0
    verb = "would remove" if arguments.dry_run else "removed"
    for path in removed:
        _print(f"{verb} {path}")
    _print(f"{verb} {len(removed)} of the baselines; {len(declared)} cases are declared")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    if made := report_command.make_report(arguments):
        _print(made.removesuffix("\n"))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli import doctor

    facts = doctor.examine()
    if arguments.hosts:
        from pytest_dlperf.cli.doctor import examine_hosts

        facts |= examine_hosts(arguments.hosts, ssh=arguments.ssh, python=arguments.python)
        facts["problems"] += facts["hosts_problems"]
    if arguments.json:
        _print_json(facts)
    else:
        _print(doctor.render(facts))
    return 1 if facts["problems"] else 0
