"""What is said of profiles that are written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.core.wire_profile import ProfiledOperator, ProfileRecord
from pytest_dlperf.judge.attribution import Profile, attribute, critical_rank

#: By path, name and part: calls and milliseconds.
Operators = dict[tuple[str, str, str], tuple[float, float]]
SLOWER = Comparison(change=-0.30, interval=(-0.33, -0.27))


def record(parts_ms: dict[str, float], operators: Operators | None = None) -> ProfileRecord:
    parts = {part: ms / 1000 for part, ms in parts_ms.items()}
    return ProfileRecord(
        windows=[{"steps": 1, "seconds": sum(parts.values()), "parts": parts}],
        operators=[
            ProfiledOperator(path=path, name=name, part=part, calls=calls, seconds=ms / 1000)
            for (path, name, part), (calls, ms) in (operators or {}).items()
        ],
    )


def one_rank(parts_ms: dict[str, float], **operators: tuple[float, float]) -> Profile:
    rows = {("layer", f"aten::{name}", "compute"): row for name, row in operators.items()}
    return {0: record(parts_ms, rows)}


def test_the_part_and_the_operator_that_grew_are_named():
    before = [
        one_rank({"compute": 80, "Python and launches": 20}, mm=(2, 70)),
        one_rank({"compute": 81, "Python and launches": 19}, mm=(2, 71)),
    ]
    now = [
        one_rank({"compute": 120, "Python and launches": 20}, mm=(2, 70), fill_=(3, 40)),
        one_rank({"compute": 121, "Python and launches": 21}, mm=(2, 70), fill_=(3, 41)),
    ]
    found = attribute(before, now, SLOWER)
    assert found.agrees
    assert [(p.part, p.named) for p in found.parts] == [
        ("compute", True),
        ("Python and launches", False),
    ]
    assert found.sentence == (
        "of 41 ms more a step: compute +40 (aten::fill_ in layer 0 to 40.5 ms, 0 to 3 calls)"
    )
    assert [o.operator for o in found.operators] == ["aten::fill_"]
    assert found.operators[0].is_added
    assert sum(p.share or 0 for p in found.parts) == pytest.approx(1)


def test_equal_arms_name_nothing():
    before = [one_rank({"compute": 80}, mm=(2, 70)), one_rank({"compute": 90}, mm=(2, 80))]
    now = [one_rank({"compute": 88}, mm=(2, 78)), one_rank({"compute": 93}, mm=(2, 83))]
    found = attribute(before, now, Comparison(change=-0.05, interval=(-0.08, -0.02)))
    assert not any(one.named for one in (*found.parts, *found.operators))
    assert "no part differs by more than equal profiles do" in found.sentence


@pytest.mark.parametrize("after", [100, 300, 90])
def test_a_profile_that_contradicts_the_verdict_is_no_story(after: float):
    before = [one_rank({"compute": 100}), one_rank({"compute": 100})]
    now = [one_rank({"compute": after}), one_rank({"compute": after})]
    found = attribute(before, now, SLOWER)
    assert found.agrees is False
    assert found.sentence.startswith("the profile does not show it")
    assert {part.share for part in found.parts} == {None}


def test_an_added_operator_is_said_although_the_steps_contradict():
    # Communication was shorter by chance, by more than the operator takes
    parts = {"compute": 20.0, "exposed communication": 90.0}
    before = [one_rank(parts), one_rank({**parts, "exposed communication": 60.0})]
    now = [one_rank({"compute": 45.0, "exposed communication": 40.0}, mm=(1, 25))] * 2
    found = attribute(before, now, SLOWER)
    assert found.sentence == (
        "the profile does not show it: its steps take 10 ms less, and equal profiles differ by "
        "30 ms; aten::mm was added (25 ms)"
    )


def test_a_case_that_became_faster_agrees_with_shorter_steps():
    before = [one_rank({"compute": 100}), one_rank({"compute": 100})]
    now = [one_rank({"compute": 80}), one_rank({"compute": 80})]
    found = attribute(before, now, Comparison(change=0.25, interval=(0.24, 0.26)))
    assert found.agrees
    assert found.sentence == "of 20 ms less a step: compute -20"
    again = attribute(now, before, Comparison(change=0.25, interval=(0.24, 0.26)))
    assert again.agrees is False


def test_no_row_is_steadier_than_the_machine():
    # The two profiles of an arm have the operator alike by chance; their steps differ by a third
    before = [one_rank({"compute": 60}, mm=(1, 18)), one_rank({"compute": 84}, mm=(1, 18))]
    now = [one_rank({"compute": 85}, mm=(1, 26)), one_rank({"compute": 86}, mm=(1, 26))]
    found = attribute(before, now, Comparison(change=-0.15, interval=(-0.2, -0.1)))
    assert found.operators == ()


def test_one_profile_of_an_arm_names_nothing():
    found = attribute([one_rank({"compute": 70})], [one_rank({"compute": 100})], SLOWER)
    assert found.agrees
    assert not any(part.named for part in found.parts)


def test_without_a_profile_of_before_there_is_only_now():
    found = attribute([], [one_rank({"compute": 70, "host waits": 5}, mm=(1, 60))], SLOWER)
    assert (found.before_ms, found.after_ms, found.agrees) == (None, 75, None)
    assert found.sentence.startswith("of the 75 ms of a profiled step now: compute 70")
    assert "no profile of before" in found.sentence
    assert found.operators[0].before_ms is None


def test_the_critical_rank_is_the_one_that_the_others_wait_for():
    waits = {"compute": 50.0, "exposed communication": 50.0}
    works = {"compute": 95.0, "exposed communication": 5.0}
    assert critical_rank([{0: record(waits), 1: record(works)}]) == 1
    before = [{0: record({"compute": 55}), 1: record({"compute": 55})}] * 2
    now = [{0: record(waits), 1: record(works)}] * 2
    found = attribute(before, now, Comparison(change=-0.45, interval=(-0.5, -0.4)))
    assert (found.rank, found.parts[0].part) == (1, "compute")


STEP = st.dictionaries(
    st.sampled_from(["compute", "exposed communication", "waiting for data", "host waits"]),
    st.floats(0.01, 1000),
    min_size=1,
)


@given(st.lists(STEP, min_size=1, max_size=2), st.lists(STEP, min_size=1, max_size=2))
def test_the_differences_add_up_to_that_of_the_step(before: list, now: list):
    found = attribute([{0: record(s)} for s in before], [{0: record(s)} for s in now], SLOWER)
    assert found.before_ms is not None
    assert found.after_ms is not None
    total = sum(part.difference_ms or 0 for part in found.parts)
    assert total == pytest.approx(found.after_ms - found.before_ms, abs=1e-6)
