"""What is allocated at the peak of some steps, by where it was allocated.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pytest_dlperf.core.wire_profile import LiveAllocation, LiveMemory

#: Where that was allocated which was there before the steps that were recorded.
EARLIER: Final = "before these steps"
#: Places that are kept, those with the most bytes.
_MOST: Final = 60


class MemoryEvent(NamedTuple):
    """An allocation, or the freeing of one, in the order of time."""

    address: int
    #: Negative where it is freed.
    bytes: int
    #: Where: the innermost frame of the user's own program, and the operator. Empty if freed.
    place: str = ""


def live_at_peak(events: Iterable[MemoryEvent], earlier_bytes: int | None = None) -> LiveMemory:
    """Return what is allocated when the sum is largest, by place.

    ``earlier_bytes`` were allocated before the first event; None where that is not known, so that
    the peak is that of these allocations alone.
    """
    live: dict[int, MemoryEvent] = {}
    at_peak: dict[int, MemoryEvent] = {}
    earlier = earlier_bytes or 0
    now = peak = peak_earlier = earlier
    is_higher = False
    for event in events:
        if event.bytes < 0:
            if is_higher:  # the peak ends here: it is copied once, rather than at each step up
                at_peak, is_higher = dict(live), False
            allocated = live.pop(event.address, None)
            if allocated is not None:
                now -= allocated.bytes
            elif earlier_bytes is not None:
                now += event.bytes
                earlier += event.bytes
        else:
            live[event.address] = event
            now += event.bytes
            if now > peak:
                peak, peak_earlier, is_higher = now, earlier, True
    if is_higher:
        at_peak = live
    sums: dict[str, list[int]] = {}
    for event in at_peak.values():
        row = sums.setdefault(event.place, [0, 0])
        row[0] += event.bytes
        row[1] += 1
    if peak_earlier > 0:
        sums[EARLIER] = [peak_earlier, 0]
    rows = [
        LiveAllocation(place=place, bytes=size, count=count)
        for place, (size, count) in sums.items()
    ]
    rows.sort(key=lambda row: -row["bytes"])
    return LiveMemory(peak_bytes=peak, allocations=rows[:_MOST])
