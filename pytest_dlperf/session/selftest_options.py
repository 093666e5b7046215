"""Options of a self-test: which it accepts, and which it passes to its sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.session.option_values import REPORTS

#: The value that switches the self-test off, also where an ini file switches it on.
OFF: Final = "off"
_OPTION: Final = "--dlperf-selftest"
#: Options that contradict it, wherever they were given, and why.
_CONTRADICTS: Final = {
    "update-baselines": "it stores a temporary baseline, and never in yours",
    "inject": "it makes steps longer by its own share",
    "against": "it asks what stored baselines see, and pairs read none",
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
    "history": "its sessions are no history",
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


def judged(*, share: float = 0.0) -> list[str]:
    """Return what a session is given that is judged, its steps longer by ``share``.

    Sentences are in the summary.
    """
    return [
        "--no-header",
        "--tb=no",
        *([f"--dlperf-inject={100 * share:.10g}%"] if share else []),
    ]
