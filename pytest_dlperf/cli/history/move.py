"""``dlperf history send``, ``import`` and ``export``."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from pytest_dlperf.cli.history.pytest_root import address_in
from pytest_dlperf.cli.history.show import (
    NOT_MARKED,
    add_selection,
    changes_can_be_found,
    found_in,
    newest_judged,
)
from pytest_dlperf.cli.parser import add_results, add_workdir
from pytest_dlperf.cli.stdout import say, say_error
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.figures import counted


def add_to(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add the commands to the parser of ``dlperf history``."""
    send = actions.add_parser(
        "send", parents=[common], help="add what sessions kept while the database was away"
    )
    add_workdir(send, "the sessions' --dlperf-workdir")
    send.set_defaults(run=_send)
    taken = actions.add_parser(
        "import", parents=[common], help="add results files of earlier sessions"
    )
    add_results(taken, nargs="+")
    taken.set_defaults(run=_import)
    export = actions.add_parser("export", parents=[common], help="write a table, or a page")
    add_selection(export, case_required=False)
    kinds = export.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--csv", metavar="FILE", help="a line an outcome; - for standard output")
    kinds.add_argument("--html", metavar="FILE", help="a page with a chart of every series")
    export.set_defaults(run=_export)


def _send(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.store.history.unsent import send_unsent

    address = address_in(arguments)
    sent = send_unsent(arguments.workdir, address)
    say(
        f"{counted(sent.sessions, 'session')} with {counted(sent.outcomes, 'new outcome')} "
        f"sent to {address.shown}"
    )
    for history, number in sorted(sent.other_histories.items()):
        waiting = "1 session waits" if number == 1 else f"{number} sessions wait"
        say(f"{waiting} for {history}: name it with --history")
    for sentence in sent.broken:
        say_error(f"left as it is: {sentence}")
    return 1 if sent.broken else 0


def _import(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report import json_
    from pytest_dlperf.store.history.append import append

    address = address_in(arguments)
    # All are read first: a file that is none stops before anything is written
    files = {path: json_.read(path) for path in arguments.results}
    for path, outcomes in files.items():
        name = f"import-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}"
        new = append(address, name, outcomes)
        say(f"{path}: {counted(new, 'new outcome')} of {len(outcomes)}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report import history_text, json_

    if arguments.html:
        file, text = arguments.html, _page(arguments)
    else:
        history = found_in(arguments, with_changes=False)
        file, text = arguments.csv, history_text.render_csv(history.series)
    if file == "-":
        say(text.removesuffix("\n"))
        return 0
    try:
        json_.write_text(Path(file), text)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from error
    return 0


def _page(arguments: argparse.Namespace) -> str:
    """Return the page of the series that the arguments choose."""
    from pytest_dlperf.report.page.history_page import points_max, render_history
    from pytest_dlperf.report.page.series_chart import JUDGED_MAX
    from pytest_dlperf.store.history.database import reading

    is_marked = changes_can_be_found()
    history = found_in(arguments, with_changes=is_marked)
    address = address_in(arguments)
    with reading(address) as connection:
        judged = newest_judged(connection, history, min(JUDGED_MAX, points_max(history)))
    return render_history(address.name, history, judged, note="" if is_marked else NOT_MARKED)
