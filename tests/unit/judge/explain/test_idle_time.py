"""What is said of a GPU's idle time after a wait of the host."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.core.wire_profile import ProfiledOperator, ProfiledWindow, ProfileRecord
from pytest_dlperf.judge.explain.attribution import attribute
from pytest_dlperf.judge.explain.operator_changes import Profile

SLOWER = Comparison(change=-0.30, interval=(-0.33, -0.27))


def _waiting(python_ms: float, idle_ms: float, waits: float) -> Profile:
    parts = {"compute": 50.0, "after host waits": idle_ms, "Python and launches": python_ms}
    seconds = {part: ms / 1000 for part, ms in parts.items()}
    item = ProfiledOperator(
        path="", name="aten::item", part="host waits", calls=waits, seconds=0.0
    )
    windows: list[ProfiledWindow] = [
        {"steps": 1, "seconds": sum(seconds.values()), "parts": seconds}
    ]
    return {0: ProfileRecord(windows=windows, operators=[item])}


@pytest.mark.parametrize(
    ("before", "now", "part"),
    [
        # The waits are new, and so is the idle time
        ((0.1, 0.0, 0.0), (0.1, 25.0, 1.0), "host waits"),
        # A program that the waits exposed before as well became slower
        ((0.1, 5.0, 1.0), (0.1, 30.0, 1.0), "Python and launches"),
        # The host was behind its GPU already: what was exposed then is no cost of the new waits
        ((20.0, 0.0, 0.0), (0.1, 44.9, 1.0), "host waits"),
    ],
)
def test_idle_time_after_waits_is_of_what_is_new(
    before: tuple[float, float, float], now: tuple[float, float, float], part: str
):
    found = attribute([_waiting(*before)] * 2, [_waiting(*now)] * 2, SLOWER)
    assert found.sentence == f"of 25 ms more a step: {part} +25"
    assert sum(one.difference_ms or 0.0 for one in found.parts) == pytest.approx(25)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), *[st.floats(0, 10)] * 3), min_size=1, max_size=4),
    st.floats(0, 20),
    st.sampled_from([0.0, 1.0]),
)
def test_parts_add_up_whatever_the_idle_time_is_of(
    windows: list[tuple[int, float, float, float]], exposed_ms: float, waits: float
):
    """Windows of several steps, as on a GPU: seconds of a window are those of all its steps."""
    now = _waiting(0.0, 0.0, waits)
    now[0]["windows"] = [
        {
            "steps": steps,
            "seconds": compute + idle + python,
            "parts": {"compute": compute, "after host waits": idle, "Python and launches": python},
        }
        for steps, compute, idle, python in windows
    ]
    found = attribute([_waiting(exposed_ms, 0.0, 0.0)] * 2, [now] * 2, SLOWER)
    steps = sum(count for count, *_ in windows)
    whole_ms = 1000 * sum(sum(parts) for _, *parts in windows) / steps
    assert {one.part for one in found.parts} <= {"compute", "host waits", "Python and launches"}
    assert all((one.after_ms or 0.0) >= 0 for one in found.parts)
    assert sum(one.after_ms or 0.0 for one in found.parts) == pytest.approx(whole_ms)


def test_of_equal_waits_the_idle_time_is_the_programs():
    found = attribute([_waiting(0.1, 5.0, 3.0)] * 2, [_waiting(0.1, 30.0, 3.4)] * 2, SLOWER)
    assert found.sentence == "of 25 ms more a step: Python and launches +25"


def test_what_was_exposed_is_counted_by_the_step():
    now = _waiting(0.0, 0.0, 1.0)
    now[0]["windows"] = [
        {"steps": 10, "seconds": 0.95, "parts": {"compute": 0.5, "after host waits": 0.45}}
    ]
    found = attribute([_waiting(20.0, 0.0, 0.0)] * 2, [now] * 2, SLOWER)
    assert {one.part: round(one.after_ms or 0.0, 6) for one in found.parts} == {
        "compute": 50, "host waits": 25, "Python and launches": 20
    }  # fmt: skip
