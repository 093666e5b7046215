"""SIGTERM ends a session as Ctrl-C does: ranks first, then every report of what was measured.

A scheduler, an eviction and the time limit of a CI send it, and kill what lives ten seconds later.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

#: Exit code of a session that SIGTERM ended, as shells have it.
EXIT_CODE: Final = 128 + signal.SIGTERM
#: A further SIGTERM within this time is the same one: some senders signal the process and its
#: group. After it, whoever took the first one for an error of theirs is interrupted again.
_SAME_S: Final = 10.0


class Ending:
    """Whether SIGTERM asked for the end of this session, and what must not be cut by it."""

    def __init__(self) -> None:
        #: Whether SIGTERM ended the session before its tests had ended.
        self.asked = False
        self._asked_at_s = 0.0
        self._pid = 0
        self._is_held = False
        self._came_meanwhile = False
        self._is_reporting = False
        self._later: KeyboardInterrupt | None = None

    def install(self, config: pytest.Config) -> None:
        """Heed SIGTERM until ``config`` is unconfigured, unless somebody else heeds it."""
        # Of the main thread alone: no other may set a handler
        if self._pid or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._pid = os.getpid()
        signal.signal(signal.SIGTERM, self._take)
        config.add_cleanup(self._restore)

    def hold(self) -> None:
        """Put SIGTERM off until ``release``: what is stored, or in one report, is in all."""
        self._is_held = True

    def later(self, interrupt: KeyboardInterrupt) -> None:
        """Put off an interrupt that was raised already until ``release``."""
        self._later = interrupt

    def release(self) -> None:
        """End ``hold``; raise ``KeyboardInterrupt`` if SIGTERM or Ctrl-C came meanwhile."""
        self._is_held = False
        if (later := self._later) is not None:
            self._later, self._came_meanwhile = None, False
            raise later
        if self._came_meanwhile:
            self._came_meanwhile = False
            raise KeyboardInterrupt(_WHY)

    def report(self) -> None:
        """Let no further SIGTERM interrupt: the reports are being written."""
        self._is_reporting = True

    def _take(self, number: int, _frame: object) -> None:
        if os.getpid() != self._pid:
            # A fork of this process, which has a handler that was not meant for it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        is_same = self.asked and time.monotonic() - self._asked_at_s < _SAME_S
        if self._is_reporting or is_same:
            return
        self.asked, self._asked_at_s = True, time.monotonic()
        if self._is_held:
            self._came_meanwhile = True
            return
        # Not pytest's own Exit: it is an Exception, which user code may take for one of its own
        raise KeyboardInterrupt(_WHY)

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._take:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._pid = 0


_WHY: Final = f"ended by SIGTERM (signal {int(signal.SIGTERM)})"
