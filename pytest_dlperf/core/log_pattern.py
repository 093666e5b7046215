"""A log format that the user declares: a regular expression, and what its numbers mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

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
    scope: Scope = "global"
    averaging: Averaging = "window"
    #: Empty: the case's.
    unit: str = ""

    def __post_init__(self) -> None:
        try:
            groups = set(re.compile(self.regex_bytes).groupindex)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"pattern {self.regex!r}: {error}") from error
        if "step" not in groups or not groups & {"rate", "seconds", "milliseconds"}:
            raise UsageError(
                f"pattern {self.regex!r} needs the groups (?P<step>\\d+) and (?P<rate>…), "
                "(?P<seconds>…) or (?P<milliseconds>…)"
            )
        for group, in_milliseconds in (("seconds", "milliseconds"), ("data", "data_milliseconds")):
            if {group, in_milliseconds} <= groups:
                raise UsageError(
                    f"pattern {self.regex!r} has {group} and {in_milliseconds}; give one of them"
                )
        for name, value, choices in (
            ("scope", self.scope, get_args(Scope)),
            ("averaging", self.averaging, get_args(Averaging)[:3]),
        ):
            if value not in choices:
                raise UsageError(f"pattern: {name} {value!r}; known: {', '.join(choices)}")

    @property
    def regex_bytes(self) -> bytes:
        """``regex`` for the bytes of a log; what was typed need not be UTF-8."""
        return self.regex.encode(errors="surrogateescape")

    @property
    def has_rate(self) -> bool:
        """Whether it reads rates; else times alone."""
        return "rate" in re.compile(self.regex).groupindex


def pattern(
    regex: str, *, scope: Scope = "global", averaging: Averaging = "window", unit: str = ""
) -> LogPattern:
    """Return the format of a user's own log.

    ``regex`` has the named groups ``step`` and ``rate`` (in ``unit`` a second; the case's unit if
    it is left out), ``seconds`` or ``milliseconds`` (of one iteration), and may have ``epoch``,
    ``data`` or ``data_milliseconds`` (of waiting) and ``loss``. Raises ``UsageError`` for one
    that cannot be used.
    """
    return LogPattern(regex=regex, scope=scope, averaging=averaging, unit=unit)
