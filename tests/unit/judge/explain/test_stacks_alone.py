"""Explanations by host stacks, where nothing else is known of the steps."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.core.wire_profile import HostStack, ProfileRecord
from pytest_dlperf.judge.explain.attribution import attribute, rank_of
from pytest_dlperf.judge.explain.operator_changes import Profile

JUDGED = Comparison(verdict=Verdict.REGRESSED)
BEGIN = "host stacks, sampled by py-spy: "


def profile(**ms: float) -> Profile:
    """Return a profile of rank 0, whose frames take so many milliseconds a step."""
    stacks = [
        HostStack(frames=f"<module> (train.py:9);{frame}", seconds=time_ms / 1000)
        for frame, time_ms in ms.items()
    ]
    return {0: ProfileRecord(stacks=stacks)}


def test_a_frame_that_takes_longer_is_named():
    before = [profile(step=10.0, load=2.0), profile(step=10.4, load=2.0)]
    now = [profile(step=10.2, load=5.0), profile(step=10.0, load=5.4)]
    explanation = attribute(before, now, JUDGED)
    assert explanation.sentence == f"{BEGIN}load +3.2 ms a step (2 to 5.2)"
    assert (explanation.before_ms, explanation.after_ms) == pytest.approx((12.2, 15.3))
    assert explanation.stacks[0].frames == "<module> (train.py:9);load"
    assert explanation.parts == ()


def test_a_frame_that_differs_as_equal_launches_do_is_not():
    before = [profile(step=10.0), profile(step=14.0)]
    now = [profile(step=15.0), profile(step=13.0)]
    sentence = attribute(before, now, JUDGED).sentence
    assert sentence == f"{BEGIN}no frame differs by more than equal runs do"


def test_without_stacks_of_before_there_is_nothing_to_compare_with():
    now = [profile(step=10.0), profile(step=10.0)]
    assert rank_of(now, JUDGED) == 0
    explanation = attribute([], now, JUDGED)
    assert explanation.sentence == f"{BEGIN}none of before are there to compare with"
    assert (explanation.before_ms, explanation.after_ms) == (None, pytest.approx(10.0))
