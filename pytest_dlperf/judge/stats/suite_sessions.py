"""Groups stored sessions of single cases into sessions of the whole suite, by time and place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

#: The longest time from one case to the next within a session of pytest.
_LONGEST_CASE: Final = timedelta(hours=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """When and where a session of one case was measured."""

    case: str
    #: ISO 8601; UTC where no zone is named.
    time: str
    #: What is equal throughout a session of pytest: machine class, node, commit.
    place: tuple[str, ...]

    @property
    def at(self) -> datetime:
        """The time with its zone, so that times can be compared."""
        # Python 3.10 does not read the Z
        found = datetime.fromisoformat(self.time.replace("Z", "+00:00"))
        return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def suite_sessions(stamps: Sequence[Stamp]) -> tuple[int, ...]:
    """Return for each stamp the number of its session of the suite, from 0 on.

    A session goes on while place and commit stay the same, each case ends within two hours of
    the one before, and no case comes twice: pytest runs each once.
    """
    numbers = [0] * len(stamps)
    order = sorted(range(len(stamps)), key=lambda i: (stamps[i].place, stamps[i].at))
    number, before, cases = -1, None, set[str]()
    for i in order:
        stamp = stamps[i]
        if (
            before is None
            or stamp.place != before.place
            or stamp.at - before.at > _LONGEST_CASE
            or stamp.case in cases
        ):
            number, cases = number + 1, set()
        cases.add(stamp.case)
        numbers[i], before = number, stamp
    return tuple(numbers)
