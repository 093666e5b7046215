"""Outcomes that are not in their history yet: kept in files, and sent later.

A session writes each outcome as it comes, so that one that is killed loses none. A file is
JSON lines: a head, then an outcome a line. While its session lives, the file is locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO

from pytest_dlperf.core.errors import HistoryError, UsageError
from pytest_dlperf.core.outcome import outcome_from_json, outcome_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.store.history.address import Address


#: Version of these files. 1: the first.
_FORMAT: Final = 1
_HEAD: Final = frozenset({"format", "session", "mode", "history"})


class UnreadableError(HistoryError):
    """An unsent session cannot be read; its file stays as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsent:
    """A session that waits for its history."""

    path: Path
    session: str
    mode: str
    #: The history that it is for, without a password.
    history: str
    outcomes: tuple[Outcome, ...]


class Journal:
    """The outcomes of a session that has not ended."""

    def __init__(self, workdir: Path, *, session: str, mode: str, history: str) -> None:
        self.path = folder_in(workdir) / f"{session}.jsonl"
        self._head = {"format": _FORMAT, "session": session, "mode": mode, "history": history}
        self._file: TextIO | None = None

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; raises ``OSError``."""
        if self._file is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = self._begun()
        _write(self._file, outcome_to_json(outcome))

    def _begun(self) -> TextIO:
        """Return the file with its head; where that fails, there is none."""
        file = self.path.open("x", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _write(file, self._head)
        except OSError:
            self.path.unlink(missing_ok=True)
            # What could not be written would be tried again
            with contextlib.suppress(OSError):
                file.close()
            raise
        return file

    def end(self, *, sent: bool) -> None:
        """Let others send the outcomes, or drop them where they were sent."""
        if self._file is None:
            return
        if sent:
            self.path.unlink(missing_ok=True)
        self._file.close()
        self._file = None


def _write(file: TextIO, values: dict[str, Any]) -> None:
    file.write(json.dumps(values, sort_keys=True, allow_nan=False) + "\n")
    file.flush()


def folder_in(workdir: Path) -> Path:
    """Return the folder of unsent sessions."""
    return workdir / "unsent"


@contextlib.contextmanager
def taken(path: Path) -> Iterator[Unsent | None]:
    """Give an unsent session to nobody else meanwhile; None where its session or a sender has it.

    Raises ``UnreadableError`` for a file that cannot be read: it stays as it is.
    """
    try:
        # To write as well, or NFS gives no lock
        file = path.open("r+", encoding="utf-8")
    except FileNotFoundError:
        yield None  # sent by another
        return
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield _read(path, file) if path.exists() else None


def _read(path: Path, file: TextIO) -> Unsent | None:
    try:
        text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    # What a writer that was killed has left of its last line is no outcome
    lines = text.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if not whole:
        return None
    try:
        head, *outcomes = map(json.loads, whole)
        if not isinstance(head, dict) or "format" not in head:
            raise UsageError("it does not begin as these files do")
        if head["format"] != _FORMAT:
            raise UsageError(f"format {head['format']!r}, this version reads {_FORMAT}")
        if set(head) != _HEAD:
            raise UsageError(f"its head has {', '.join(sorted(head))}")
        return Unsent(
            path=path,
            session=head["session"],
            mode=head["mode"],
            history=head["history"],
            outcomes=tuple(map(outcome_from_json, outcomes)),
        )
    except (ValueError, UsageError) as error:
        raise UnreadableError(f"{path}: not an unsent session ({error})") from error


@dataclass(kw_only=True, slots=True)
class Sent:
    """What became of the unsent sessions of a folder."""

    sessions: int = 0
    outcomes: int = 0
    #: Sessions that wait for another history, by its name.
    other_histories: dict[str, int] = field(default_factory=dict)
    #: Sentences: files that cannot be read.
    broken: list[str] = field(default_factory=list)


def send_unsent(workdir: Path, address: Address) -> Sent:
    """Send the sessions that wait in ``workdir`` for this history, oldest first.

    A file that cannot be read stays, and keeps no other back. Raises ``HistoryError`` where the
    history cannot be written; then that session and those after it go on waiting.
    """
    from pytest_dlperf.store.history.append import append  # it loads SQLAlchemy

    done = Sent()
    for path in sorted(folder_in(workdir).glob("*.jsonl")):
        try:
            with taken(path) as unsent:
                if unsent is None:
                    continue
                if unsent.history != address.shown:
                    done.other_histories[unsent.history] = (
                        done.other_histories.get(unsent.history, 0) + 1
                    )
                    continue
                new = append(address, unsent.session, unsent.outcomes, mode=unsent.mode)
                done.sessions += 1
                done.outcomes += new
                path.unlink()
        except UnreadableError as error:
            done.broken.append(str(error))
        except OSError as error:
            done.broken.append(f"{path}: sent, and cannot be removed ({error.strerror})")
    return done
