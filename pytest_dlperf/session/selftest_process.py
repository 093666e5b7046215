"""Start the pytest sessions of a self-test, one at a time, with the options that it passes on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.session.option_values import REPORTS

#: The value that switches the self-test off, also where an ini file switches it on.
OFF: Final = "off"
_OPTION: Final = "--dlperf-selftest"
#: The other arm of pairs of which nothing differs: a variable that nothing reads, so that it needs
#: no git, and is the working tree also where files are modified.
NULL: Final = "DLPERF_ARM=unchanged"
#: Options that contradict it, wherever they were given, and why.
_CONTRADICTS: Final = {
    "update-baselines": "it stores a temporary baseline, and never in yours",
    "inject": "it makes steps longer by its own share",
    "against": "its pairs are of the working tree with itself",
    "cost": "a trace times nothing, and a cost is exact",
    "from-logs": "it trains, and logs cannot be made slower",
    "list": "it measures, and a list runs nothing",
    "dry-run": "it measures, and a dry run runs nothing",
    "resume": "it measures every case by itself",
    "published": "it judges against what this machine has just measured",
    "scheduler": "it measures on this machine; let a job call it",
    "node-rank": "it runs several sessions, and the other nodes could not know which",
    "iterations": "a baseline is stored of the case's own window only",
    "warmup": "a baseline is stored of the case's own window only",
}
#: Options that it sets itself. In ini and environment, where they are for ordinary sessions, they
#: are replaced; who types them means something else.
_SETS: Final = {
    "baselines": "it stores in a temporary folder; yours is not touched",
    "reason": "it accepts no level",
    "mode": "it asks what the gate sees, so that its sessions are in mode gate",
    "history": "its sessions are not added to the history",
    "sink": "its sessions are sent nowhere",
    **dict.fromkeys(REPORTS, "it writes its results and pages itself, and says where"),
}


def parse(text: str) -> float:
    """Return the share by which steps are to be longer; raise ``UsageError``."""
    share = parse_share(text, what=_OPTION)
    if share == 0:
        raise UsageError(f"{_OPTION}={text} would make nothing slower; give for instance 20%")
    return share


def check(get: Callable[[str], Any], typed: Sequence[str]) -> None:
    """Raise ``UsageError`` for an option that makes no sense with a self-test.

    ``get`` returns the value of one of our options, ``typed`` are the words of the command line.
    """
    for name, why in _CONTRADICTS.items():
        if get(name):
            shown = "--update-baselines" if name == "update-baselines" else f"--dlperf-{name}"
            raise UsageError(f"{_OPTION} and {shown}: {why}; leave one of them out")
    names = {word.partition("=")[0] for word in typed}
    for name, why in _SETS.items():
        if f"--dlperf-{name}" in names:
            raise UsageError(f"{_OPTION} and --dlperf-{name}: {why}; leave --dlperf-{name} out")


def with_ours(typed: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Return the words of a session: those that were typed, and ours, which count."""
    end = typed.index("--") if "--" in typed else len(typed)
    return [*typed[:end], *ours, *typed[end:]]


def common(folder: Path, step: str, get: Callable[[str], Any], markers: str) -> list[str]:
    """Return the options of each session: its baseline folder, results file and page.

    ``markers`` is what ``-m`` was given: of the tests that it selects only perf tests are run.
    """
    extensions = {"json": "json", "html": "html"}
    extensions |= {name: name for name in REPORTS if get(name) and name not in extensions}
    return [
        f"{_OPTION}={OFF}",
        f"--dlperf-baselines={folder / 'baselines'}",
        f"--dlperf-workdir={folder}",
        "--dlperf-history=off",
        "--dlperf-sink=off",
        "--dlperf-mode=gate",
        *(f"--dlperf-{name}={folder / step}.{ending}" for name, ending in extensions.items()),
        "--override-ini=dlperf_github=false",
        f"-m={f'({markers}) and dlperf' if markers else 'dlperf'}",
        # Each case is answered by itself
        "--maxfail=0",
    ]


def store() -> list[str]:
    """Return what the session is given that stores the baseline."""
    return ["--dlperf-update-baselines", "--dlperf-reason=self-test"]


def judged(*, share: float = 0.0, by_pairs: bool = False) -> list[str]:
    """Return what a session is given that is judged, its steps longer by ``share``.

    With ``by_pairs`` of the two sides of a pair those of one; sentences are in the summary.
    """
    return [
        "--no-header",
        "--tb=no",
        # What made it slower is known
        *([f"--dlperf-inject={100 * share:.10g}%", "--dlperf-explain=never"] if share else []),
        *([f"--dlperf-against={NULL}"] if by_pairs else []),
    ]


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
