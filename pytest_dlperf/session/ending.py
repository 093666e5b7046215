"""SIGTERM and SIGHUP end a session as Ctrl-C does: ranks first, then every report of what it has.

A scheduler, an eviction and the time limit of a CI send the first, and kill what lives ten seconds
later; a terminal that is closed, or an ssh that is lost, the second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import stat
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

#: Those that end a session.
SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
#: A further one within this time is the same one: some senders signal the process and its
#: group. After it, whoever took the first one for an error of theirs is interrupted again.
_SAME_S: Final = 10.0


class Ending:
    """Whether a signal asked for the end of this session, and what must not be cut by it."""

    def __init__(self) -> None:
        #: The signal that ended the session before its tests had ended; None if none did.
        self.asked: signal.Signals | None = None
        self._asked_at_s = 0.0
        self._pid = 0
        self._is_held = False
        self._came_meanwhile = False
        self._is_reporting = False
        self._later: KeyboardInterrupt | None = None

    def install(self, config: pytest.Config) -> None:
        """Heed the signals until ``config`` is unconfigured, unless somebody else heeds them.

        One that is ignored, as ``nohup`` has SIGHUP, stays ignored.
        """
        # Of the main thread alone: no other may set a handler
        if self._pid or threading.current_thread() is not threading.main_thread():
            return
        free = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
        if not free:
            return
        self._pid = os.getpid()
        for number in free:
            signal.signal(number, self._take)
        config.add_cleanup(self._restore)

    @property
    def exit_code(self) -> int:
        """Return the exit code of a session that a signal ended, as shells have it."""
        assert self.asked is not None
        return 128 + self.asked

    def hold(self) -> None:
        """Put the signals off until ``release``: what is stored, or in one report, is in all."""
        self._is_held = True

    def later(self, interrupt: KeyboardInterrupt) -> None:
        """Put off an interrupt that was raised already until ``release``."""
        self._later = interrupt

    def release(self) -> None:
        """End ``hold``; raise ``KeyboardInterrupt`` if one or Ctrl-C came meanwhile."""
        self._is_held = False
        if (later := self._later) is not None:
            self._later, self._came_meanwhile = None, False
            raise later
        if self._came_meanwhile:
            self._came_meanwhile = False
            raise self._interrupt()

    def report(self) -> None:
        """Let no further signal interrupt: the reports are being written."""
        self._is_reporting = True
        leave_dead_outputs()

    def _take(self, number: int, _frame: object) -> None:
        if os.getpid() != self._pid:
            # A fork of this process, which has a handler that was not meant for it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        leave_dead_outputs()
        is_same = self.asked is not None and time.monotonic() - self._asked_at_s < _SAME_S
        if self._is_reporting or is_same:
            return
        self.asked, self._asked_at_s = signal.Signals(number), time.monotonic()
        if self._is_held:
            self._came_meanwhile = True
            return
        raise self._interrupt()

    def _interrupt(self) -> KeyboardInterrupt:
        # Not pytest's own Exit: it is an Exception, which user code may take for one of its own
        assert self.asked is not None
        return KeyboardInterrupt(f"ended by {self.asked.name} (signal {int(self.asked)})")

    def _restore(self) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self._take:
                signal.signal(number, signal.SIG_DFL)
        self._pid = 0


def leave_dead_outputs() -> None:
    """Put the null device where a terminal or a pipe is gone: no report may fail by its output.

    pytest has several descriptors of its output, some of them while it captures.
    """
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        descriptors = [0, 1, 2]  # not Linux
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if not _is_dead_output(descriptor):
                continue
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.dup2(null, descriptor, inheritable=os.get_inheritable(descriptor))
            finally:
                os.close(null)


def _is_dead_output(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    is_read = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    if is_read or not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        return False
    look = select.poll()
    look.register(descriptor, select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in look.poll(0))
