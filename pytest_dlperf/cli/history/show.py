"""``dlperf history list``, ``series``, ``show``, ``changes`` and ``bisect``."""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import operator
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.cli.history.pytest_root import address_in
from pytest_dlperf.cli.parser import add_json
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.command_results import (
    Bisection,
    Change,
    Counted,
    Explained,
    HistoryFound,
    JudgedPoint,
    Series,
)
from pytest_dlperf.core.cost import COST_CLASS
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import parse_share, parse_time, whole_number
from pytest_dlperf.report.figures import counted

if TYPE_CHECKING:
    import sqlalchemy as sa


def bisection_of(
    change: Change, outcome: Outcome, *, node_id: str = "", folder: str = ""
) -> Bisection:
    """Return how to bisect ``change``; ``outcome`` is one of its case.

    ``node_id`` is its test as pytest takes it in ``folder``, which is below the top of the
    repository; empty for the outcome's own, and for the top.
    """
    good, bad = change.last_before.commit, change.first_after.commit
    reason = _nothing_to_bisect(change, outcome)
    return Bisection(
        change=change,
        node_id=outcome.node_id,
        good=good,
        bad=bad,
        reason=reason,
        commands=() if reason else _commands(change, outcome, node_id, folder),
    )


def _nothing_to_bisect(change: Change, outcome: Outcome) -> str:
    good, bad = change.last_before.commit, change.first_after.commit
    software = "; ".join(change.software)
    if not good or not bad:
        return (
            "an outcome next to the change has no commit: it was measured outside of git, or git "
            "refused to say it"
        )
    if good == bad:
        cause = f"the software changed ({software})" if software else "look at the machine"
        return (
            f"commit {short_commit(good)} has both levels, so no commit made the change: {cause}"
        )
    if not outcome.node_id:
        return (
            "the history does not record which test measured the case, so it cannot be run again"
        )
    return ""


def _commands(change: Change, outcome: Outcome, node_id: str, folder: str) -> tuple[str, ...]:
    good, bad = change.last_before.commit, change.first_after.commit
    faster = change.change > 0
    # By how much the slow level is below the fast one, whichever was first: half of it lies
    # between both
    slower = change.change / (1 + change.change) if faster else -change.change
    step = ["dlperf", "history", "bisect-step"]
    step += [f"--against={bad if faster else good}", f"--limit={50 * slower:.2g}%"]
    step += ["--faster"] if faster else []
    step += [f"--folder={folder}"] if folder else []
    terms = ["--term-old=slow", "--term-new=fast"] if faster else []
    return (
        shlex.join(["git", "bisect", "start", *terms, bad, good]),
        shlex.join(["git", "bisect", "run", *step, "--", *_words(outcome, node_id)]),
        "git bisect reset",
    )


def _words(outcome: Outcome, node_id: str) -> list[str]:
    """Return what pytest is given to measure the case as it was measured."""
    case = outcome.case
    layout, protocol = case.layout, case.protocol
    options = [node_id or outcome.node_id, f"--dlperf-size={case.size}"]
    if layout.nodes == 1:
        options.append(f"--{layout.device}s={layout.devices_per_node}")
    if protocol.declared_window is not None:
        options.append(f"--dlperf-iterations={protocol.iterations}")
        options.append(f"--dlperf-warmup={protocol.warmup}")
    return options


#: Where Otava is missing.
NOT_MARKED: Final = (
    "changes are not marked: apache-otava is not installed; pip install 'pytest-dlperf[history]'"
)


def add_to(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add the commands to the parser of ``dlperf history``."""
    cases = actions.add_parser("list", parents=[common], help="every case, and where it ran")
    cases.set_defaults(run=_list)
    series = actions.add_parser(
        "series", parents=[common], help="the outcomes of a case, oldest first"
    )
    add_selection(series, case_required=True)
    series.add_argument(
        "--last", default="50", metavar="N", help="only the newest rows (50; 0: all)"
    )
    series.set_defaults(run=_series)
    show = actions.add_parser(
        "show",
        parents=[common],
        help="the parts of a case's steps, or the figures of its cost, and which of them grew",
    )
    add_selection(show, case_required=True)
    show.add_argument(
        "--last",
        default="5",
        metavar="N",
        help="of each series only the newest outcomes that have them (5; 0: all)",
    )
    show.set_defaults(run=_show)
    changes = actions.add_parser(
        "changes", parents=[common], help="where a level changed, after which commit"
    )
    add_selection(changes, case_required=False)
    changes.set_defaults(run=_changes)
    bisect = actions.add_parser(
        "bisect", parents=[common], help="the commits of a change, and how to find the one"
    )
    add_selection(bisect, case_required=True)
    bisect.add_argument(
        "--nth", type=int, default=1, metavar="N", help="the N-th newest change (1)"
    )
    bisect.set_defaults(run=_bisect)
    for command in (cases, series, show, changes, bisect):
        add_json(command)


def add_selection(parser: argparse.ArgumentParser, *, case_required: bool) -> None:
    """Declare what chooses series."""
    parser.add_argument(
        "case",
        nargs=None if case_required else "?",
        default="",
        metavar="CASE",
        help="case id, or a pattern with *",
    )
    parser.add_argument(
        "--machine-class", default="", metavar="NAME", help="only of this one (all)"
    )
    parser.add_argument("--node", default="", metavar="NAME", help="only of this one (all)")
    parser.add_argument(
        "--since", default="", metavar="DATE", help="nothing before, as 2026-11-22"
    )
    parser.add_argument(
        "--dirty", action="store_true", help="count outcomes with modified files as well"
    )
    parser.add_argument(
        "--min-change", default="2%", metavar="SHARE", help="smallest change to look for (2%%)"
    )


def changes_can_be_found() -> bool:
    """Return whether what finds them is installed."""
    return find_spec("otava") is not None


def _selected_series(
    connection: sa.Connection, arguments: argparse.Namespace
) -> tuple[Series, ...]:
    """Return the series that the arguments choose; raise ``UsageError`` if there is none."""
    from pytest_dlperf.store.history.query import series_of

    pattern: str = arguments.case
    stored = series_of(
        connection,
        "" if "*" in pattern else pattern,
        machine_class=arguments.machine_class,
        node=arguments.node,
        since=parse_time(arguments.since, what="--since") if arguments.since else "",
        dirty=arguments.dirty,
    )
    fits = tuple(
        series for series in stored if not pattern or fnmatch.fnmatch(series.case_id, pattern)
    )
    if not fits:
        raise UsageError(
            f"no outcome of {pattern or 'any case'} fits; dlperf history list shows what is stored"
        )
    return fits


def _changes_in(
    connection: sa.Connection, series: Iterable[Series], share_min: float
) -> tuple[Change, ...]:
    """Return the changes of all series with what else changed, series by series."""
    from pytest_dlperf.store.history.changes import changes_of, with_causes

    return tuple(
        with_causes(connection, one, change)
        for one in series
        for change in changes_of(one, share_min=share_min)
    )


def _list(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report.history_text import render_cases
    from pytest_dlperf.store.history.database import reading
    from pytest_dlperf.store.history.query import stored_cases

    address = address_in(arguments)
    with reading(address) as connection:
        history = HistoryFound(history=address.shown, cases=stored_cases(connection))
    return _print_found(arguments, history, render_cases(history))


def _series(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report.history_text import render_series

    last = whole_number(arguments.last, "--last", least=0)
    is_marked = changes_can_be_found()
    history = found_in(arguments, with_changes=is_marked)
    text = render_series(history, last=last)
    if not is_marked:
        text += f"\n{NOT_MARKED}"
    return _print_found(arguments, history, text)


def _show(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report.history_text import render_parts_and_costs
    from pytest_dlperf.store.history.database import reading

    last = whole_number(arguments.last, "--last", least=0)
    history = found_in(arguments, with_changes=False)
    is_counted = [series.machine_class == COST_CLASS for series in history.series]
    with reading(address_in(arguments)) as connection:
        explained = tuple(
            _explained(series, outcome)
            for series in itertools.compress(history.series, map(operator.not_, is_counted))
            for outcome in _newest(connection, series, last, _has_parts)
        )
        counted = tuple(
            _counted(series, outcome)
            for series in itertools.compress(history.series, is_counted)
            for outcome in _newest(connection, series, last, _has_cost)
        )
    history = HistoryFound(history=history.history, explained=explained, counted=counted)
    return _print_found(arguments, history, render_parts_and_costs(history, arguments.case))


def _newest(
    connection: sa.Connection, series: Series, last: int, is_shown: Callable[[Outcome], bool]
) -> list[Outcome]:
    """Return the newest outcomes that are shown, oldest first; all for 0."""
    from pytest_dlperf.store.history.query import whole_outcomes

    # One by one: of a long history most are not explained, and each is large
    outcomes = (
        outcome
        for point in reversed(series.points)
        for outcome in whole_outcomes(connection, [point.number])
    )
    return list(itertools.islice(filter(is_shown, outcomes), last or None))[::-1]


def _has_parts(outcome: Outcome) -> bool:
    return outcome.explanation is not None and bool(outcome.explanation.parts)


def _has_cost(outcome: Outcome) -> bool:
    return outcome.cost is not None


def _place(series: Series, outcome: Outcome) -> dict[str, Any]:
    """Return what a ``SeriesOutcome`` has of both, but for its sentence."""
    return {
        "case_id": series.case_id,
        "machine_class": series.machine_class,
        "node": series.node,
        "conditions": series.conditions,
        "time": outcome.time,
        "commit": outcome.commit,
        "verdict": str(outcome.judgement.verdict),
    }


def _counted(series: Series, outcome: Outcome) -> Counted:
    cost = outcome.cost
    assert cost is not None
    return Counted(
        **_place(series, outcome),
        sentence=outcome.judgement.reason,
        figures=cost.figures,
    )


def _explained(series: Series, outcome: Outcome) -> Explained:
    explanation = outcome.explanation
    assert explanation is not None
    return Explained(
        **_place(series, outcome),
        sentence=explanation.sentence,
        before_ms=explanation.before_ms,
        after_ms=explanation.after_ms,
        parts=explanation.parts,
    )


def _changes(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report.history_text import render_changes

    history = replace(found_in(arguments, with_changes=True), series=())
    return _print_found(arguments, history, render_changes(history))


def _bisect(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.history.pytest_root import place_of
    from pytest_dlperf.report.history_text import render_bisection
    from pytest_dlperf.store.history.database import reading
    from pytest_dlperf.store.history.query import whole_outcomes

    history = found_in(arguments, with_changes=True)
    newest = sorted(history.changes, key=lambda change: change.time, reverse=True)
    if not 1 <= arguments.nth <= len(newest):
        raise UsageError(
            f"{arguments.case} has {counted(len(newest), 'change')} in {history.searched} series; "
            "dlperf history series shows them"
        )
    change = newest[arguments.nth - 1]
    with reading(address_in(arguments)) as connection:
        (outcome,) = whole_outcomes(connection, [change.first_after.number])
    place = place_of(outcome.node_id, Path.cwd())
    bisection = bisection_of(change, outcome, node_id=place.node_id, folder=place.folder)
    history = HistoryFound(history=history.history, bisection=bisection)
    return _print_found(arguments, history, render_bisection(history))


def found_in(arguments: argparse.Namespace, *, with_changes: bool) -> HistoryFound:
    """Return the series that the arguments choose; raise ``UsageError`` if there is none."""
    from pytest_dlperf.store.history.database import reading

    address = address_in(arguments)
    share_min = parse_share(arguments.min_change, what="--min-change")
    with reading(address) as connection:
        series = _selected_series(connection, arguments)
        changes = _changes_in(connection, series, share_min) if with_changes else ()
    return HistoryFound(
        history=address.shown,
        series=series,
        changes=changes,
        searched=sum(bool(one.level_points) for one in series) if with_changes else 0,
        left_out=_left_out(series),
    )


def newest_judged(
    connection: sa.Connection, history: HistoryFound, count: int
) -> tuple[JudgedPoint, ...]:
    """Return by what the newest ``count`` outcomes of each series were judged."""
    from pytest_dlperf.store.history.query import judged_points

    numbers = [point.number for series in history.series for point in series.points[-count:]]
    return tuple(judged_points(connection, numbers))


def _left_out(series: Sequence[Series]) -> dict[str, int]:
    return Counter(point.left_out for one in series for point in one.points if point.left_out)


def _print_found(arguments: argparse.Namespace, history: HistoryFound, text: str) -> int:
    from pytest_dlperf.report.schemas import FORMAT

    if arguments.json:
        say_json({"format": FORMAT, **encode(history)})
    else:
        say(text)
    return 0
