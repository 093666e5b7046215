"""What this session has measured so far, shared by all its processes (xdist workers).

One JSON line a run and case. Written and read under a lock of the case, so that a one-device
parent is measured once, whichever test needs it first, also where the host is shared.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.outcome import Outcome, outcome_from_json, outcome_to_json
from pytest_dlperf.core.run import MeasuredRun, RunSummary
from pytest_dlperf.core.writable import writable

#: Says that a folder is ours, and, while it is locked, that its session lives.
_MARK: Final = ".dlperf-session"
#: Folders of earlier sessions that are kept.
_KEPT: Final = 9


def make_session_folder(base: Path, name: str) -> tuple[Path, int]:
    """Return ``base/name`` and the descriptor that holds its lock while this process lives.

    All but the newest nine other sessions that have ended are removed; nothing else in
    ``base`` is touched. Raises ``OSError`` if the folder cannot be made.
    """
    make_work_folder(base)
    folder = base / name
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(
        folder / _MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    # Shared, since all xdist workers of a session hold it.
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _remove_ended(base, folder)
    return folder, descriptor


def make_work_folder(base: Path) -> None:
    """Make the folder of all sessions, which git ignores; raise ``OSError`` if that fails."""
    try:
        base.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass  # it is the user's, or another worker has just made it
    else:
        (base / ".gitignore").write_text("*\n", encoding="utf-8")


def _remove_ended(base: Path, own_folder: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for mark in base.glob(f"*/{_MARK}"):
        if mark.parent != own_folder:
            with contextlib.suppress(FileNotFoundError):  # another session removes as well
                ages.append((mark.stat().st_mtime, mark.parent))
    for _, folder in sorted(ages, reverse=True)[_KEPT:]:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / _MARK, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


class SessionRuns:
    """The runs of one session, in its folder."""

    def __init__(self, folder: Path, *, inherited: str = "") -> None:
        """``inherited`` is a digest of what ranks inherit: only runs with the same are loaded.

        Empty: all are, whatever they inherited.
        """
        self._folder, self._inherited = folder, inherited

    @contextlib.contextmanager
    def exclusive(self, case: Case) -> Iterator[None]:
        """Keep the session's other processes from running ``case`` meanwhile."""
        path = self._path(case).with_name("lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def append(self, case: Case, run: MeasuredRun) -> None:
        """Remember ``run``."""
        path = self._path(case)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {"run": encode(run.summary), "facts": run.facts, "inherited": self._inherited}
        line = json.dumps(kept)
        # Begins a line, so that it is whole whatever a writer that was killed has left.
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")

    def fail(self, case: Case, why: str) -> None:
        """Remember that a run of ``case`` failed: no other process is to launch it again."""
        _replace(self._failure(case), writable(why) or "a run failed")

    def failure(self, case: Case) -> str:
        """Return why a run of ``case`` failed; empty if none did."""
        path = self._failure(case)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def keep_pairs(self, outcome: Outcome) -> None:
        """Remember the pairs of a case so far, by an outcome without a verdict."""
        _replace(self._pairs(outcome.case), json.dumps(outcome_to_json(outcome)))

    def pairs(self, case: Case) -> Outcome | None:
        """Return the outcome with the pairs of ``case`` so far; None before the first."""
        return _outcome_in(self._pairs(case))

    def forget(self, case: Case) -> bool:
        """Forget the runs of ``case``, and their failure; return whether there were any."""
        with self.exclusive(case):
            files = [self._path(case), self._failure(case), self._pairs(case)]
            is_there = any(file.exists() for file in files)
            for file in files:
                file.unlink(missing_ok=True)
            return is_there

    def load(self, case: Case) -> list[MeasuredRun]:
        """Return the runs of ``case`` so far.

        A process that was killed while it wrote has left half a line, and so no run.
        """
        path = self._path(case)
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        loaded = [item for line in lines if (item := _whole(line)) is not None]
        if self._inherited:
            loaded = [item for item in loaded if item["inherited"] == self._inherited]
        return [MeasuredRun(decode(RunSummary, item["run"]), item["facts"]) for item in loaded]

    def keep(self, outcome: Outcome) -> None:
        """Remember the outcome of a case for a further attempt of its test; raise ``OSError``."""
        _replace(self._outcome(outcome.case), json.dumps(outcome_to_json(outcome)))

    def outcome(self, case: Case) -> Outcome | None:
        """Return the outcome of ``case`` so far; None without one."""
        return _outcome_in(self._outcome(case))

    def _outcome(self, case: Case) -> Path:
        return self._path(case).with_name("outcome.json")

    def _pairs(self, case: Case) -> Path:
        return self._path(case).with_name("pairs.json")

    def _failure(self, case: Case) -> Path:
        return self._path(case).with_name("failed.txt")

    def _path(self, case: Case) -> Path:
        return self._folder / case.id / "runs.jsonl"


def _replace(path: Path, text: str) -> None:
    """Write ``text`` into ``path`` whole or not at all; raise ``OSError``."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _outcome_in(path: Path) -> Outcome | None:
    if not path.exists():
        return None
    return outcome_from_json(json.loads(path.read_text(encoding="utf-8")))


def _whole(line: str) -> dict[str, Any] | None:
    """Return what a line says; None for an empty one, for half of one, and for anything else."""
    try:
        item: Any = json.loads(line)
    except ValueError:
        return None
    return item if isinstance(item, dict) else None
