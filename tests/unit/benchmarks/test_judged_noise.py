"""``benchmarks/judged_noise.md`` has what the judge says today."""

from __future__ import annotations

import pytest

import judged_noise

# It judges some eight thousand times, in half a minute; the golden file is in the gate.
pytestmark = [pytest.mark.once, pytest.mark.nightly]


def test_a_change_of_the_judge_shows_what_it_does_to_noise() -> None:
    written = judged_noise.FILE.read_text(encoding="utf-8").splitlines()
    assert judged_noise.text().splitlines() == written, "python benchmarks/judged_noise.py"
