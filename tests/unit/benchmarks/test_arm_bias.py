"""The table of an arm's bias, from differences made by a seed."""

from __future__ import annotations

import random
from typing import Any

import pytest

import arm_bias

pytestmark = pytest.mark.once


def lines(mean: float, *, case: str = "case", sessions: int = 20) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {"case": case, "differences": [draw.gauss(mean, 0.013) for _ in range(10)]}
        for _ in range(sessions)
    ]


@pytest.mark.parametrize(("mean", "goal"), [(0.0, "met"), (0.006, "not shown")])
def test_200_pairs_show_whether_the_bias_is_below_the_goal(mean: float, goal: str):
    [_, _, row] = arm_bias.table(lines(mean)).splitlines()
    assert row.startswith("| case | 20 | 200 | 1.")
    assert row.endswith(f"| {goal} |")


def test_the_interval_is_that_of_the_mean():
    # 0.005 and 3.1824 (Student's t, three degrees of freedom) times 0.0064550
    found = arm_bias.interval([-0.01, 0.0, 0.01, 0.02])
    assert found == pytest.approx((-0.01554, 0.02554), abs=1e-5)


def test_several_cases_have_a_row_together_and_the_fewest_pairs_count():
    found = [*lines(0.0), *lines(0.0, case="other", sessions=3)]
    assert arm_bias.fewest_pairs(found) == 30
    rows = arm_bias.table(found).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| case", "| other", "| all"]
    assert rows[-1].startswith("| all | 23 | 230 |")
