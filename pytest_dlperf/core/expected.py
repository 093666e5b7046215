"""Known slowdowns, as the marker declares them: an issue, a date, and a size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share

_KEYS: Final = ("issue", "until", "change")
_EXAMPLE: Final = 'known={"issue": "#123", "until": "2027-01-31", "change": "-4%"}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A slowdown that is tolerated until a date."""

    issue: str
    #: The last day on which it is tolerated, ISO 8601.
    until: str
    #: now / before - 1 of the throughput: below 0.
    change: float

    @classmethod
    def parse(cls, value: Any) -> Known:
        """Return the slowdown that ``value`` declares; raise ``UsageError`` if it is invalid."""
        if not isinstance(value, Mapping) or set(value) != set(_KEYS):
            raise UsageError(f"known {value!r}: give issue, until and change, as in {_EXAMPLE}")
        issue, until, change = (str(value[key]).strip() for key in _KEYS)
        if not issue:
            raise UsageError(f"known: issue is empty; name who works on it, as in {_EXAMPLE}")
        try:
            last = date.fromisoformat(until)
        except ValueError:
            raise UsageError(
                f"known: until {until!r} is not a date; write it as in {_EXAMPLE}"
            ) from None
        if not change.startswith("-"):
            raise UsageError(
                f"known: change {change!r} is not a slowdown; write it as in {_EXAMPLE}"
            )
        share = parse_share(change[1:], what="known: change")
        if not 0 < share < 1:
            raise UsageError(f"known: change {change!r} must be between -100 % and 0")
        return cls(issue=issue, until=last.isoformat(), change=-share)
