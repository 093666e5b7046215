"""``dlperf baselines``: list, show, check, accept and prune stored baselines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_dlperf.cli import check
from pytest_dlperf.cli.advice import in_words_of
from pytest_dlperf.cli.declared_cases import declared_cases, without_case
from pytest_dlperf.cli.parser import add_actions, add_json, add_results
from pytest_dlperf.cli.stdout import say, say_error, say_json
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.flow.later import with_later_sessions
from pytest_dlperf.flow.pipeline import judge_again
from pytest_dlperf.report import json_
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.terminal import later_sessions
from pytest_dlperf.store.baseline import commands
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.update import Change


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = add_actions(parser, "ACTION")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="folder of the baselines (baselines/ here)",
    )
    add_json(common)
    listing = actions.add_parser(
        "list", parents=[common], help="every stored number and its source"
    )
    listing.set_defaults(run=_list)
    show = actions.add_parser("show", parents=[common], help="one baseline, whole")
    show.add_argument("case", metavar="CASE", help="case id, or a pattern with * that fits")
    show.set_defaults(run=_show)
    accept = actions.add_parser("accept", parents=[common], help="store what a session measured")
    add_results(accept, nargs="+", text="; several are one session")
    accept.add_argument(
        "-k", dest="pattern", metavar="PATTERN", help="only case ids that hold this"
    )
    accept.add_argument(
        "--reason", default="", metavar="TEXT", help="why what did not pass is stored"
    )
    accept.add_argument(
        "--anchor",
        action="store_true",
        help="hold later sessions to this level (of a release), however slowly they leave it",
    )
    accept.set_defaults(run=_accept)
    prune = actions.add_parser("prune", parents=[common], help="remove baselines without a case")
    prune.add_argument("paths", nargs="*", metavar="PATH", help="where the tests are (perf_tests)")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    prune.set_defaults(run=_prune)
    check.add_to(actions, common)


def _store(arguments: argparse.Namespace, *, may_be_missing: bool = False) -> BaselineStore:
    root: Path = arguments.baselines
    if not root.is_dir() and (root.exists() or not may_be_missing):
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    return BaselineStore(root)


def _list(arguments: argparse.Namespace) -> int:
    rows = commands.list_rows(_store(arguments))
    if arguments.json:
        say_json({"format": 1, "baselines": encode(rows)})
    else:
        table = aligned(commands.list_cells(rows), right=commands.NUMBER_COLUMNS)
        say("\n".join(table) if rows else "no baselines are stored")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    document = commands.show(_store(arguments), arguments.case)
    if arguments.json:
        say_json(document)
    else:
        say(commands.render_show(document))
    return 0


def _accept(arguments: argparse.Namespace) -> int:
    outcomes = json_.read_shards(arguments.results)
    store = _store(arguments, may_be_missing=True)
    changes = commands.accept(
        store,
        outcomes,
        pattern=arguments.pattern,
        reason=arguments.reason,
        anchor=arguments.anchor,
        judge_again=lambda outcome, baseline: judge_again(outcome, baseline, Rule()),
    )
    changes = [replace(change, text=in_words_of(arguments, change.text)) for change in changes]
    if arguments.json:
        say_json(commands.changes_to_json(changes))
    else:
        for change in changes:
            (say_error if change.refused else say)(change.text)
        for line in _later(store, outcomes, changes):
            say(line)
    if not changes:
        named = ", ".join(map(str, arguments.results))
        raise UsageError(f"{named} holds no case that fits; look at -k")
    return 1 if any(change.refused for change in changes) else 0


def _later(
    store: BaselineStore, outcomes: Sequence[Outcome], changes: Sequence[Change]
) -> list[str]:
    """Return a line for each case that was stored: what later sessions can detect."""
    what = {change.case_id: change.what for change in changes if not change.refused}
    stored = [replace(o, update=what[o.case.id]) for o in outcomes if o.case.id in what]
    return later_sessions(with_later_sessions(store, stored, Rule(), count_family=True))


def _prune(arguments: argparse.Namespace) -> int:
    store = _store(arguments)
    try:
        declared = declared_cases(arguments.paths or ["perf_tests"])
    except UsageError as error:
        raise UsageError(f"nothing was removed: {error}") from error
    entries = list(store.all())
    gone = {entry.baseline.case_id for entry in without_case(entries, declared)}
    kept = {entry.baseline.case_id for entry in entries} - gone
    removed = commands.prune(store, kept, dry_run=arguments.dry_run)
    if arguments.json:
        say_json({"format": 1, "removed": [str(path) for path in removed]})
        return 0
    verb = "would remove" if arguments.dry_run else "removed"
    for path in removed:
        say(f"{verb} {path}")
    say(f"{verb} {len(removed)} of the baselines; {len(declared)} cases are declared")
    return 0
