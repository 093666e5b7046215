"""What is allocated at the peak, of allocations that are written by hand."""

from __future__ import annotations

from pytest_dlperf.worker.peak_memory import EARLIER, MemoryEvent, live_at_peak


def test_what_is_freed_before_the_peak_is_not_in_it():
    events = [
        MemoryEvent(1, 100, "a"),
        MemoryEvent(2, 50, "b"),
        MemoryEvent(1, -100),
        MemoryEvent(3, 30, "b"),
        MemoryEvent(4, 200, "c"),
        MemoryEvent(4, -200),
        MemoryEvent(5, 10, "d"),
    ]
    found = live_at_peak(events)
    assert found["peak_bytes"] == 280
    rows = [(one["place"], one["bytes"], one["count"]) for one in found["allocations"]]
    assert rows == [("c", 200, 1), ("b", 80, 2)]


def test_what_was_there_before_counts_until_it_is_freed():
    events = [MemoryEvent(7, -400), MemoryEvent(1, 100, "a")]
    found = live_at_peak(events, earlier_bytes=1000)
    # Its first moment is the peak: what comes later never gets that high again
    assert found["peak_bytes"] == 1000
    assert [(one["place"], one["bytes"]) for one in found["allocations"]] == [(EARLIER, 1000)]
    found = live_at_peak([*events, MemoryEvent(2, 600, "b")], earlier_bytes=1000)
    assert found["peak_bytes"] == 1300
    assert {one["place"]: one["bytes"] for one in found["allocations"]} == {
        EARLIER: 600,
        "a": 100,
        "b": 600,
    }


def test_an_address_that_is_used_again_is_counted_once():
    events = [MemoryEvent(1, 100, "a"), MemoryEvent(1, -100), MemoryEvent(1, 100, "b")]
    assert live_at_peak(events)["peak_bytes"] == 100
