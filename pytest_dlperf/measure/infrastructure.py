"""Decides whether the infrastructure failed a launch, and not the user's code.

Pure, on the records of the ranks, the end of the log and the exit code. A launch is repeated only
where all of them agree that no training had begun: a slow result, a rank that raised or was
killed, and a run that reached its timeout are never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.run import EndReason, Run
from pytest_dlperf.core.writable import line_begin
from pytest_dlperf.measure.records import RankRecords

#: Code of the problem of a measurement of which a launch was repeated.
RETRIED: Final = "launch-retried"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sign:
    """A line of a log by which an infrastructure that failed is known."""

    pattern: re.Pattern[str]
    words: str
    #: Whether a rank was waited for: a rank that hangs causes the same line.
    is_wait: bool = False
    #: Whether the line also comes in the middle of a training, when a node is lost.
    comes_later: bool = False


_SIGNS: Final = (
    _Sign(
        pattern=re.compile(r"EADDRINUSE|address already in use", re.I), words="a port was taken"
    ),
    _Sign(pattern=re.compile(r"\bRendezvousTimeoutError\b"), words="the rendezvous timed out"),
    _Sign(
        pattern=re.compile(r"\bRendezvousConnectionError\b"),
        words="the rendezvous was not reached",
        comes_later=True,
    ),
    _Sign(
        pattern=re.compile(
            r"DistStoreError: Timed out .* waiting for clients"
            r"|The client socket has (timed out|failed to connect)"
        ),
        words="the store where ranks meet was not reached",
        is_wait=True,
    ),
    _Sign(
        pattern=re.compile(
            r"ssh: connect to host \S+ port \d+: "
            r"(Connection refused|Connection reset|Connection timed out|No route to host)"
            r"|(kex|ssh)_exchange_identification: .*(closed|reset)"
            r"|Connection (closed|reset) by \S+ port \d+",
            re.I,
        ),
        words="ssh did not get through",
    ),
    _Sign(
        pattern=re.compile(r"Connection to \S+ closed by remote host", re.I),
        words="ssh was cut off",
        comes_later=True,
    ),
)
#: Errors that a repeated launch meets again: a wrong key, an unknown host.
_FOR_GOOD: Final = re.compile(
    r"Permission denied \(|Host key verification failed|Could not resolve hostname"
    r"|REMOTE HOST IDENTIFICATION HAS CHANGED|Bad configuration option"
)
#: How launchers report a rank that was killed, or that has crashed.
_RANK_KILLED: Final = re.compile(
    r"Signal \d+ \(SIG(KILL|SEGV|ABRT|BUS|ILL|FPE)\)|exitcode: -(4|6|7|8|9|11)\b|exited on signal"
)
#: The last line of a traceback, after the prefix that a launcher puts before lines of its ranks.
_EXCEPTION: Final = re.compile(
    r"(?:\[[^\]]*\]:? ?)*(?P<name>(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit))(?::|$)"
)
_LINE_CHARACTERS: Final = 1000
#: Only the launcher and its store raise these.
_OF_THE_LAUNCHER: Final = re.compile(r"torch\.distributed\.")


def launch_failure(run: Run, records: Sequence[RankRecords], log: str, *, is_program: bool) -> str:
    """Return in what way the infrastructure failed ``run``; empty if it did not.

    ``log`` is the end of the run's log. ``is_program``: the ranks are the user's own program,
    whose failures are in its log alone.
    """
    nodes = run.end.nodes
    is_over = run.end.is_by_itself or nodes
    if run.timed_out or not is_over or not run.exit_code or run.exit_code < 0:
        return ""
    if any(rank.wrote("first_step") for rank in records) or _is_of_the_code(records):
        return ""
    if nodes:
        is_gone = run.end.reason is EndReason.NODE_GONE
        return nodes if is_gone and not _FOR_GOOD.search(nodes) else ""
    if _RANK_KILLED.search(log) or _FOR_GOOD.search(log):
        return ""
    if is_program and _raised(log):
        return ""
    silent = any(not (rank.wrote("failure") or rank.wrote("end")) for rank in records)
    is_unknown = is_program and not records
    lines = _lines(log)
    for sign in _SIGNS:
        if (sign.is_wait and silent) or (sign.comes_later and is_unknown):
            continue
        for line in lines:
            if sign.pattern.search(line):
                return f"{sign.words}: {line_begin(line.strip(), 200)}"
    return ""


def _lines(log: str) -> list[str]:
    """Return the lines, cut: the time of some patterns grows with the square of the line."""
    return [line[:_LINE_CHARACTERS] for line in log.split("\n")]


def _is_of_the_code(records: Sequence[RankRecords]) -> bool:
    """Return whether a rank failed otherwise than by not meeting the others."""
    for rank in records:
        failure = rank.by_kind.get("failure")
        if failure is None:
            continue
        # Ranks meet before they record their framework; later failures are the user's.
        if failure["code"] != "exception" or rank.wrote("framework"):
            return True
        if not any(sign.pattern.search(failure["message"]) for sign in _SIGNS):
            return True
    return False


def _raised(log: str) -> bool:
    """Return whether an exception that is not the launcher's or its store's ended the program."""
    names = (found["name"] for line in _lines(log) if (found := _EXCEPTION.match(line)))
    return any(not _OF_THE_LAUNCHER.match(name) for name in names)
