"""Send the outcomes that wait for a history, in order, each session once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_dlperf.store.history.append import append
from pytest_dlperf.store.history.unsent import UnreadableError, folder_in, taken

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.store.history.address import Address


@dataclass(kw_only=True, slots=True)
class Sent:
    """What became of the unsent sessions of a folder."""

    sessions: int = 0
    outcomes: int = 0
    #: Sessions that wait for another history, by its name.
    others: dict[str, int] = field(default_factory=dict)
    #: Sentences: files that cannot be read.
    broken: list[str] = field(default_factory=list)


def send_unsent(workdir: Path, address: Address) -> Sent:
    """Send the sessions that wait in ``workdir`` for this history, oldest first.

    A file that cannot be read stays, and keeps no other back. Raises ``HistoryError`` where the
    history cannot be written; then that session and those after it go on waiting.
    """
    done = Sent()
    for path in sorted(folder_in(workdir).glob("*.jsonl")):
        try:
            with taken(path) as unsent:
                if unsent is None:
                    continue
                if unsent.history != address.shown:
                    done.others[unsent.history] = done.others.get(unsent.history, 0) + 1
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
