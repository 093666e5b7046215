"""A log format that the user declares: a regular expression, and what its numbers mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pytest_dlperf.core.errors import UsageError

#: Whose work a printed rate counts.
Scope = Literal["device", "process", "replica", "node", "global"]
#: Over what a printed rate is an average: the iteration printed, the iterations since the last
#: print, all since some iteration of the epoch, or the whole run.
Averaging = Literal["iteration", "window", "running", "whole"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPattern:
    """A record is a line in which ``regex`` is found; see ``pattern`` for its groups."""

    regex: str
    #: More of them, where a record is over several lines.
    further: tuple[str, ...] = ()
    #: Empty: ``global``, unless the log says that rates are of a part of the devices.
    scope: Scope | Literal[""] = ""
    #: Empty: ``window``, unless the numbers show that it matters.
    averaging: Averaging | Literal[""] = ""
    #: Empty: the case's.
    unit: str = ""

    def __post_init__(self) -> None:
        groups = [_groups_of(regex) for regex in self.regexes]
        if not any("step" in own for own in groups):
            raise UsageError(
                f"pattern {self.regex!r} needs the group (?P<step>\\d+), and (?P<rate>…), "
                "(?P<seconds>…) or (?P<milliseconds>…) where no clock is to say how long an "
                "iteration took: (?P<elapsed>…), or that of the lines"
            )
        for regex, own in zip(self.regexes, groups, strict=True):
            _check_groups(regex, own)
        for name, value, choices in (
            ("scope", self.scope or "global", get_args(Scope)),
            ("averaging", self.averaging or "window", get_args(Averaging)[:3]),
        ):
            if value not in choices:
                raise UsageError(f"pattern: {name} {value!r}; known: {', '.join(choices)}")

    @property
    def regexes(self) -> tuple[str, ...]:
        """All of them."""
        return (self.regex, *self.further)

    @property
    def has_rate(self) -> bool:
        """Whether it reads rates; else times alone."""
        return any("rate" in _groups_of(regex) for regex in self.regexes)

    @property
    def clock_suffices(self) -> bool:
        """Whether it reads neither rates nor times of iterations: a clock says them."""
        speeds = {"rate", "seconds", "milliseconds"}
        return not any(speeds & _groups_of(regex) for regex in self.regexes)

    @property
    def has_elapsed(self) -> bool:
        """Whether it reads the clock itself, and no time stamp of the line is one."""
        return any("elapsed" in _groups_of(regex) for regex in self.regexes)


#: Groups that a pattern may have.
_GROUPS: Final = (
    "step",
    "rate",
    "seconds",
    "milliseconds",
    "elapsed",
    "epoch",
    "data",
    "data_milliseconds",
    "loss",
    "grad_norm",
)


def regex_bytes(regex: str) -> bytes:
    """Return a pattern for the bytes of a log; what was typed need not be UTF-8."""
    return regex.encode(errors="surrogateescape")


def _groups_of(regex: str) -> set[str]:
    try:
        return set(re.compile(regex_bytes(regex)).groupindex)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"pattern {regex!r}: {error}") from error


def _check_groups(regex: str, groups: set[str]) -> None:
    if not groups & {*_GROUPS}:
        raise UsageError(f"pattern {regex!r} has no group; known: {', '.join(_GROUPS)}")
    for group, in_milliseconds in (("seconds", "milliseconds"), ("data", "data_milliseconds")):
        if {group, in_milliseconds} <= groups:
            raise UsageError(
                f"pattern {regex!r} has {group} and {in_milliseconds}; give one of them"
            )


def pattern(
    regex: str,
    *further: str,
    scope: Scope | Literal[""] = "",
    averaging: Averaging | Literal[""] = "",
    unit: str = "",
) -> LogPattern:
    """Return the format of a user's own log.

    ``regex`` has the named groups ``step`` and ``rate`` (in ``unit`` a second; the case's unit if
    it is left out), ``seconds`` or ``milliseconds`` (of one iteration), and may have ``epoch``,
    ``data`` or ``data_milliseconds`` (of waiting), ``loss`` and ``grad_norm``; of these two a line
    that names them is read without the groups. Where they are on several lines,
    ``further`` patterns find them: a line without a step belongs to the last step before it.
    ``elapsed`` is the time since the run or the epoch began, in seconds or as ``1:02:03``. With
    ``step`` alone the time stamps of the lines say how long iterations took. ``scope``
    is ``global`` and ``averaging`` ``window`` if it is left out. Raises ``UsageError`` for one
    that cannot be used.
    """
    return LogPattern(regex=regex, further=further, scope=scope, averaging=averaging, unit=unit)
