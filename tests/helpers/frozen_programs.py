"""Programs that are hard to freeze: ``frozen_programs.py NAME FOLDER``. Each counts in a file."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

NAME, FOLDER = sys.argv[1:3]
LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
TRACE_ME, TRACE_CONTINUE = 0, 7  # ptrace(2)


def count(for_s: float = 600.0) -> None:
    """Count up to the end of the time, in a file of this process's own."""
    partial = f"{FOLDER}/partial-{os.getpid()}"
    with open(partial, "w+b") as file:
        file.truncate(8)
        counted = mmap.mmap(file.fileno(), 8)
    os.rename(partial, f"{FOLDER}/count-{os.getpid()}")
    number, end_s = 0, time.monotonic() + for_s
    while time.monotonic() < end_s:
        number += 1
        counted[:] = number.to_bytes(8, "big")
        time.sleep(0.001)


def counts() -> None:
    count()


def forks() -> None:
    """Start a child after another, each of which counts for a moment."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    while True:
        if os.fork() == 0:
            count(0.1)
            os._exit(0)
        time.sleep(0.02)


def goes_from_one_to_the_next() -> None:
    """Go on in a child, whose parent ends."""
    while True:
        if os.fork():
            os._exit(0)
        count(0.01)


def ignores_and_blocks_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            continue  # those of the C library
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    count()


def has_a_session_of_its_own() -> None:
    if os.fork() == 0:
        os.setsid()
    count()


def leaves_a_daemon() -> None:
    """Leave a daemon that has dropped its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, __file__, "counts", FOLDER], {})
        os._exit(0)
    count()


def goes_on_in_a_thread() -> None:
    """End the first thread alone: the process is a zombie to those who look at it."""
    threading.Thread(target=count, daemon=True).start()
    LIBRARY.pthread_exit(None)


def stops_itself() -> None:
    if os.fork() == 0:
        Path(FOLDER, "stopped").write_text(str(os.getpid()), encoding="ascii")
        os.kill(os.getpid(), signal.SIGSTOP)
        Path(FOLDER, "went-on").touch()
        time.sleep(600)
    count()


def waits_in_the_kernel() -> None:
    """Wait for the child of a vfork, which no signal but SIGKILL ends."""
    if LIBRARY.vfork() == 0:
        count()
        os._exit(0)


def is_traced() -> None:
    """Trace a child that counts, as a debugger does."""
    child = os.fork()
    if child == 0:
        LIBRARY.ptrace(TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        count()
    while True:
        _, status = os.waitpid(child, 0)
        number = os.WSTOPSIG(status)
        passed_on = 0 if number == signal.SIGSTOP else number
        LIBRARY.ptrace(TRACE_CONTINUE, child, None, ctypes.c_void_p(passed_on))


def is_many() -> None:
    for _ in range(99):
        if os.fork() == 0:
            break
    count()


if __name__ == "__main__":
    globals()[NAME]()
