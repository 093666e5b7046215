"""Add the outcomes of a session to its history, or keep them for later."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import HistoryError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history.name import is_url
from pytest_dlperf.store.history.unsent import Journal, folder_in

if TYPE_CHECKING:
    from pytest_dlperf.store.history.address import Address
    from pytest_dlperf.store.history.unsent import Sent

#: The file of sessions that name no history, in their working folder.
DEFAULT: Final = "history.sqlite"


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What became of a session's outcomes."""

    #: For the summary.
    line: str
    #: Whether they wait in files of their own.
    waits: bool = False
    #: Whether they are nowhere.
    lost: bool = False


class SessionHistory:
    """The history of one session: keeps its outcomes as they come, sends them at its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        now = datetime.datetime.now(datetime.timezone.utc)
        self._session = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        self._mode = "observe" if settings.observe else "gate"
        self._address: Address | None = None
        self._journal: Journal | None = None
        #: Why the outcomes are in no file of their own; empty if they are.
        self._not_kept = ""

    def take(self, outcome: Outcome) -> None:
        """Keep an outcome in a file: the session may be killed before its end."""
        if self._settings.history is None or not _is_added(outcome):
            return
        if self._journal is None:
            self._address = address_of(self._settings)
            self._journal = Journal(
                self._settings.workdir,
                session=self._session,
                mode=self._mode,
                history=self._address.shown,
            )
        try:
            self._journal.add(outcome)
        except OSError as error:
            self._not_kept = f"{self._journal.path}: {error.strerror}"

    def finish(self, outcomes: Sequence[Outcome]) -> Added | None:
        """Send what waits, and then ``outcomes``; None where there are none.

        Where the history cannot be written they stay in their file, for the next session.
        """
        if self._address is None or self._journal is None:
            return None
        from pytest_dlperf.store.history.append import append
        from pytest_dlperf.store.history.unsent import send_unsent

        added = [outcome for outcome in outcomes if _is_added(outcome)]
        try:
            earlier = send_unsent(self._settings.workdir, self._address)
            new = append(self._address, self._session, added, mode=self._mode)
        except HistoryError as error:
            self._journal.end(sent=False)
            return self._kept(error, len(added))
        line = f"history: {figures.counted(new, 'outcome')} added to {self._address.shown}"
        line += waited_words(earlier, "; and ")
        try:
            self._journal.end(sent=True)
        except OSError as error:
            line += f"; {self._journal.path} cannot be removed ({error.strerror})"
        return Added(line=line)

    def _kept(self, error: HistoryError, count: int) -> Added:
        begin = f"history NOT written: {error}; "
        if self._not_kept:
            return Added(line=f"{begin}nor kept: {self._not_kept}", lost=True)
        return Added(
            line=f"{begin}{figures.counted(count, 'outcome')} kept in "
            f"{folder_in(self._settings.workdir)}: the next session sends them, or dlperf history "
            "send",
            waits=True,
        )


def _is_added(outcome: Outcome) -> bool:
    """Whether the history has it from this session.

    Of a training of several sessions, that of its first node has the outcome; and what is taken
    from a results file, the session that measured it has added.
    """
    return not outcome.share_done and not outcome.taken_from


def check_usage(settings: Settings) -> None:
    """Raise ``UsageError`` where the name of the history is not an address."""
    history = settings.history
    # A file was looked at, and costs no import of what reads URLs
    if history is not None and is_url(history.text):
        address_of(settings)


def address_of(settings: Settings) -> Address:
    """Return where the history of a session is; raise ``UsageError`` for an invalid address."""
    from pytest_dlperf.store.history.address import file_address, parse_address

    history = settings.history
    assert history is not None
    if not history.text:
        return file_address(settings.workdir / DEFAULT, is_private=True)
    return parse_address(history.text, folder=history.folder, what=history.named_by)


def waited_words(sent: Sent, begin: str) -> str:
    """Return what is to be said of sessions that had waited; empty if there were none."""
    words = (
        [f"{begin}{figures.counted(sent.sessions, 'session')} that had waited"]
        if sent.sessions
        else []
    )
    return "".join([*words, *(f"; left as it is: {sentence}" for sentence in sent.broken)])
