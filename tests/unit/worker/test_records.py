"""A program's own metrics: the mean of the window, and one meaning a name."""

from __future__ import annotations

import math

import pytest

from pytest_dlperf.worker.records import MetricBook


def values(book: MetricBook) -> dict[str, float]:
    return {name: one["value"] for name, one in book.record()["values"].items()}


def test_the_mean_of_the_calls_in_the_window_counts() -> None:
    book = MetricBook()
    book.add("load", 100, "lower", "")
    book.add("shards", 4, "lower", "")
    book.start_window()
    for value in (1, 2):
        book.add("load", value, "lower", "")
    # A name that has no call in the window keeps what it had before.
    assert values(book) == {"load": 1.5, "shards": 4}
    assert book.record()["values"]["load"]["calls"] == 2


def test_a_phase_is_a_metric_in_seconds() -> None:
    book = MetricBook()
    with book.phase("checkpoint"):
        pass
    found = book.record()["values"]["checkpoint_seconds"]
    assert found["value"] > 0
    assert (found["unit"], found["better"]) == ("s", "lower")


@pytest.mark.parametrize(
    ("name", "better", "unit", "says"),
    [
        ("load", "higher", "", "and before it had unit '', better 'lower'"),
        ("load", "lower", "s", "give two metrics two names"),
        ("Load", "lower", "", "use lower-case letters"),
        ("other", "less", "", 'give "lower" or "higher"'),
    ],
)
def test_a_name_has_one_meaning(name: str, better: str, unit: str, says: str) -> None:
    book = MetricBook()
    book.add("load", 1, "lower", "")
    with pytest.raises(ValueError, match=says):
        book.add(name, 1, better, unit)


def test_a_value_that_is_not_finite_is_an_error() -> None:
    book = MetricBook()
    book.add("load", math.nan, "lower", "")
    with pytest.raises(ValueError, match="metric load: nan is not a finite number"):
        book.record()
