from __future__ import annotations

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_duration
from pytest_dlperf.flow.budget import Budget


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("1h30m", 5400), ("90s", 90), (" 0.5h ", 1800)]
)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text, what="--dlperf-budget") == seconds


@pytest.mark.parametrize("text", ["", "45", "45 m", "m", "-5m", "0s", "5d", "1e3s", "5m!"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration; write 45m"):
        parse_duration(text, what="--dlperf-budget")


def test_a_run_must_end_within_it() -> None:
    budget = Budget.starting_now(1000)
    assert budget.allows(900)
    assert not budget.allows(1001)
    assert budget.text == "16.6667 min"
