"""``dlperf history site``: a folder of pages over all cases and sessions of a history."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cli.history.pytest_root import address_in
from pytest_dlperf.cli.history.show import (
    NOT_MARKED,
    add_selection,
    changes_can_be_found,
    found_in,
    newest_judged,
)
from pytest_dlperf.cli.stdout import say
from pytest_dlperf.core.command_results import Acknowledged, HistoryFound, Site
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.figures import counted

if TYPE_CHECKING:
    from pytest_dlperf.core.baseline import Baseline

#: Names the files that an earlier call wrote: these alone are written over, or removed.
MANIFEST: Final = ".dlperf-site.json"
_FORMAT: Final = 1
_OURS: Final = re.compile(r"(?:case/)?[a-z0-9][a-z0-9._+~-]*\.html")
_BASELINES: Final = Path("baselines")


def add_to(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add the command to the parser of ``dlperf history``."""
    site = actions.add_parser(
        "site", parents=[common], help="write a folder of pages over all cases and sessions"
    )
    site.add_argument("folder", type=Path, metavar="DIR", help="it is made where it is missing")
    add_selection(site, case_required=False)
    site.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="folder with the levels that were accepted (baselines/ here, if there is one)",
    )
    site.set_defaults(run=_site)


def _site(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.report.page.site_pages import pages

    folder: Path = arguments.folder
    is_marked = changes_can_be_found()
    history = found_in(arguments, with_changes=is_marked)
    site = _read(arguments, history, note="" if is_marked else NOT_MARKED)
    size_bytes = write_site(folder, pages(site))
    cases = {series.case_id for series in history.series}
    say(
        f"{counted(len(cases), 'case')} of {counted(len(site.sessions), 'session')}: "
        f"{folder / 'index.html'}, {size_bytes / 1e6:.1f} MB in all"
    )
    return 0


def _read(arguments: argparse.Namespace, history: HistoryFound, *, note: str) -> Site:
    from pytest_dlperf.report.page.series_chart import JUDGED_MAX
    from pytest_dlperf.store.history.database import reading
    from pytest_dlperf.store.history.query import stored_sessions

    shown = {point.number for series in history.series for point in series.points}
    address = address_in(arguments)
    with reading(address) as connection:
        sessions = stored_sessions(connection)
        judged = newest_judged(connection, history, JUDGED_MAX)
    return Site(
        name=address.name,
        history=history,
        sessions=tuple(session for session in sessions if not shown.isdisjoint(session.outcomes)),
        acknowledged=_acknowledged(arguments.baselines),
        judged=judged,
        note=note,
    )


def _acknowledged(folder: Path | None) -> tuple[Acknowledged, ...]:
    """Return the levels that were replaced for a reason, oldest first."""
    from pytest_dlperf.store.baseline.store import BaselineStore

    root = folder or _BASELINES
    if not root.is_dir():
        if folder is not None:
            raise UsageError(
                f"{folder} is not a directory; name the baselines with --baselines=DIR"
            )
        return ()
    levels = [
        level for stored in BaselineStore(root).all() for level in _replaced(stored.baseline)
    ]
    return tuple(sorted(levels, key=lambda level: level.time))


def _replaced(baseline: Baseline) -> Iterator[Acknowledged]:
    """Yield each replaced level, with the commit of the level that took its place."""
    levels = [*(level.sessions for level in baseline.history), baseline.sessions]
    for level, sessions in zip(baseline.history, levels[1:], strict=True):
        yield Acknowledged(
            case_id=baseline.case_id,
            machine_class=baseline.machine_class,
            time=level.replaced,
            reason=level.reason or "no reason was given",
            commit=sessions[0].commit if sessions else "",
        )


def write_site(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write the pages below ``folder``, and return their size in bytes.

    Files that an earlier call wrote are replaced, or removed where there is no such page any
    more. Raises ``UsageError`` where any other file has the name of a page, or cannot be written;
    it stays as it is.
    """
    from pytest_dlperf.report import json_

    old = _written_before(folder)
    new: set[str] = set()
    size_bytes = 0
    try:
        for name, text in pages:
            path = folder / name
            if name not in old and (path.exists() or path.is_symlink()):
                raise UsageError(
                    f"{path} is not a page of an earlier site, so it is not written over; move it "
                    "away, or name another folder"
                )
            new.add(name)
            # Before the page: what an interrupted call leaves is known as ours
            if name not in old:
                _note(folder, old | new)
            json_.write_text(path, text)
            size_bytes += len(text.encode(errors="backslashreplace"))
        for name in old - new:
            (folder / name).unlink(missing_ok=True)
        _note(folder, new)
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder}: cannot be written ({error.strerror})"
        ) from error
    return size_bytes


def _written_before(folder: Path) -> frozenset[str]:
    path = folder / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        files = values["files"]
        if values["format"] != _FORMAT or not all(_OURS.fullmatch(name) for name in files):
            raise ValueError("not a list of pages")
    except FileNotFoundError:
        return frozenset()
    except NotADirectoryError as error:
        raise UsageError(f"{folder} is a file; name a folder") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: not the list of a site's pages ({error}); name another folder, or remove "
            "this one yourself"
        ) from error
    return frozenset(files)


def _note(folder: Path, names: Iterable[str]) -> None:
    from pytest_dlperf.report import json_

    values = {"format": _FORMAT, "files": sorted(names)}
    json_.write_text(folder / MANIFEST, json.dumps(values, indent=0) + "\n")
