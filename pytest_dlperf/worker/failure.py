"""The exception of a failed check, and the stacks of a rank that is ended or crashes.

``faulthandler`` writes them in the signal's handler, in C: also while the rank is stuck in a
collective, in the compiler or in a call that holds the interpreter's lock.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from pathlib import Path
from typing import TextIO

from pytest_dlperf.core.wire import rank_file


class WorkerFailure(Exception):
    """A check failed in this rank; ``code`` is stable, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


#: The file must stay open; a signal's handler writes to it.
_FILES: list[TextIO] = []


def watch(folder: Path, rank: int) -> None:
    """Write the stacks of all threads to ``rank<N>.stack`` at SIGTERM.

    What SIGTERM does is not changed: the handler that was there before is called afterwards. A
    handler that is set later replaces this one, so this is called again after a framework was
    imported.
    """
    if not _FILES:
        path = folder / rank_file(rank, "stack")
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
        _FILES.append(os.fdopen(descriptor, "w", encoding="utf-8"))
        _FILES[0].write(f"main {threading.main_thread().ident:#x}\n")
        _FILES[0].flush()
        os.register_at_fork(after_in_child=_leave)
    faulthandler.unregister(signal.SIGTERM)
    faulthandler.register(signal.SIGTERM, _FILES[0], chain=True)


def watch_crashes() -> None:
    """Write the stacks as well when this rank crashes, before the framework's own handlers.

    To be called after the framework's import, which sets those handlers. A user's own
    ``faulthandler.enable()`` is left alone.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(_FILES[0])


def _leave() -> None:
    """Write no more; called in a forked child, whose stack is not this rank's."""
    faulthandler.unregister(signal.SIGTERM)
