"""Start the pytest sessions of a self-test, one at a time; none of them outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Sessions:
    """Runs pytest sessions in the folder where this one was typed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: subprocess.Popen[bytes] | None = None
        #: Whether somebody wants all of it to end.
        self.interrupted = False

    @contextlib.contextmanager
    def forwarding(self) -> Iterator[None]:
        """Hand Ctrl-C, SIGTERM and SIGHUP on to the session that runs, and live on to its end."""
        before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # A shell's background job ignores Ctrl-C.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        if self._running is not None:
            # pytest ends in order at this one, and its ranks with it
            self._running.send_signal(signal.SIGINT)

    def run(self, words: Sequence[str]) -> int:
        """Run a session on this one's terminal; return its exit code.

        It is killed where this process is, on Linux: nothing of it lives on.
        """
        sys.stdout.flush()
        self._running = subprocess.Popen(
            # Not by preexec_fn, which may hang where this process has threads. Isolated, since
            # files in the user's folder do not matter here.
            [sys.executable, "-I", __file__, str(os.getpid()), *_pytest(), *words],
            cwd=self._folder,
            # Ctrl-C comes from here alone: twice, it would interrupt the end of its ranks.
            start_new_session=True,
        )
        try:
            if self.interrupted:  # before there was one to hand it on to
                self._running.send_signal(signal.SIGINT)
            return self._running.wait()
        finally:
            if self._running.poll() is None:
                self._running.kill()
                self._running.wait()
            self._running = None


def _pytest() -> list[str]:
    """Return the command of pytest as it was called: ``-m`` puts another folder on the path."""
    script = Path(sys.argv[0])
    is_script = script.name in {"pytest", "py.test"} and script.is_file()
    return [sys.executable, *([str(script.absolute())] if is_script else ["-m", "pytest"])]


def _become(parent: str, *command: str) -> None:
    """Become a session that heeds Ctrl-C, and that is killed where its parent is."""
    # Below a shell's background job it would ignore what it is handed on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == int(parent):
        os.execv(command[0], command)


if __name__ == "__main__":
    _become(*sys.argv[1:])
