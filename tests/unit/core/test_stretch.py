from __future__ import annotations

import pytest

from pytest_dlperf.core.stretch import most_different


def test_the_stretch_that_differs_is_found_and_described():
    steps = [0.1] * 60 + [0.3] * 20 + [0.1] * 20
    found = most_different(steps, 50)
    assert found is not None
    assert (found.first, found.last) == (110, 129)
    assert found.share_of_time == pytest.approx(6 / 14)
    # 8 a step: 100 x 8 in 14 s.
    assert found.words(800 / 14, "images") == (
        "iterations 110 to 129 ran at 26.67 images/s and took 43% of the time, the others ran at "
        "80 images/s"
    )


@pytest.mark.parametrize(
    ("slow", "stretch"),
    [
        (range(30), (0, 29)),
        (range(70, 100), (70, 99)),
        (range(70), (70, 99)),
        (range(50), (50, 99)),
        (range(40, 42), (40, 41)),
    ],
)
def test_a_stretch_at_an_end_is_the_shorter_side(slow: range, stretch: tuple[int, int]):
    steps = [0.2 if i in slow else 0.1 for i in range(100)]
    found = most_different(steps, 0)
    assert found is not None
    assert (found.first, found.last) == stretch


def test_one_stalled_iteration_is_a_stretch_of_one():
    found = most_different([0.1] * 20 + [2.0] + [0.1] * 19, 10)
    assert found is not None
    assert found.words(1.0, "images").startswith("iteration 30 ran at")


@pytest.mark.parametrize("steps", [[], [0.1], [0.1] * 30])
def test_equal_steps_have_no_stretch(steps: list[float]):
    assert most_different(steps, 0) is None
