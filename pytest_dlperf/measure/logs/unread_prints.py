"""Prints of a log whose speed a user's pattern does not read: another unit, or more digits.

They are mostly the slow ones, or the fast ones, so that the others alone are no rate of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.parsed_log import ParsedLog
from pytest_dlperf.measure.logs.spans import RateSeries

CODE: Final = "prints-unread"
#: Where more of the measured iterations are not read there is no number.
_MOST: Final = 0.05


def refusal(parsed: ParsedLog, measured: RateSeries) -> Iterator[Problem]:
    """Yield why there is no number: too many of the iterations that were measured have none."""
    share = _share(parsed, measured)
    if share > _MOST:
        yield _problem(parsed, share, "; no number is given")


def problems(parsed: ParsedLog, measured: RateSeries) -> Iterator[Problem]:
    """Yield that a few of the iterations that were measured have no number."""
    share = _share(parsed, measured)
    if 0 < share <= _MOST:
        yield _problem(parsed, share, ", and are in no rate")


def _share(parsed: ParsedLog, measured: RateSeries) -> float:
    if not len(measured):
        return 0.0
    options = parsed.options
    # Those before the first that was read are a part of what was to be measured.
    begin = min(float(measured.first[0]), options.skip + 1.0)
    return parsed.timeline.unread_share(begin, options.last)


def _problem(parsed: ParsedLog, share: float, end: str) -> Problem:
    why = "" if parsed.fmt.no_number is None else parsed.fmt.no_number()
    return Problem(
        code=CODE,
        message=f"{share:.1%} of the iterations that were measured are not read "
        f"({why or 'their speed is 0, or not a number'}){end}; a pattern with an alternative for "
        "each unit reads all, as in "
        r"(?:(?P<rate>\S+) it/s|(?P<seconds>\S+) s/it)",
    )
