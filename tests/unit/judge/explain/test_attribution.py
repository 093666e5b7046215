"""What is said of profiles that are written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.core.wire_profile import (
    HostStack,
    LiveAllocation,
    LiveMemory,
    ProfiledOperator,
    ProfileRecord,
)
from pytest_dlperf.judge.explain.attribution import attribute, critical_rank
from pytest_dlperf.judge.explain.operator_changes import Profile, kept_record

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
        "of 41 ms more a step: compute +40.5 (aten::fill_ in layer 0 to 40.5 ms, 0 to 3 calls)"
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
    assert {(part.share, part.named) for part in found.parts} == {(None, False)}


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


@settings(deadline=None)
@given(st.lists(STEP, min_size=1, max_size=2), st.lists(STEP, min_size=1, max_size=2))
def test_the_differences_add_up_to_that_of_the_step(before: list, now: list):
    found = attribute([{0: record(s)} for s in before], [{0: record(s)} for s in now], SLOWER)
    assert found.before_ms is not None
    assert found.after_ms is not None
    total = sum(part.difference_ms or 0 for part in found.parts)
    assert total == pytest.approx(found.after_ms - found.before_ms, abs=1e-6)


def test_what_added_calls_take_is_certain_where_launches_differ_in_speed():
    # The machine was slower in one launch of each arm, by more than the added calls take
    before = [one_rank({"compute": 40}, add=(2, 38)), one_rank({"compute": 22}, add=(2, 20))]
    now = [
        one_rank({"compute": 59}, add=(2, 39), mm=(1, 18)),
        one_rank({"compute": 50}, add=(2, 32), mm=(1, 16)),
    ]
    found = attribute(before, now, Comparison(change=-0.35, interval=(-0.5, -0.2)))
    [part] = found.parts
    assert part.difference_ms == pytest.approx(23.5)
    assert part.named
    assert part.by_calls_ms == pytest.approx(17)
    assert "compute +17 " in found.sentence


def test_what_the_other_operators_took_longer_is_said_as_well_where_it_is_beyond_the_spread():
    before = [one_rank({"compute": 40}, add=(2, 38)), one_rank({"compute": 41}, add=(2, 39))]
    now = [one_rank({"compute": 80}, add=(2, 58), mm=(1, 20))] * 2
    [part] = attribute(before, now, Comparison(change=-0.5, interval=(-0.52, -0.48))).parts
    assert (part.named, part.by_calls_ms) == (True, None)
    assert part.difference_ms == pytest.approx(39.5)


def test_an_added_call_need_not_be_like_the_others_of_its_operator():
    before = [one_rank({"compute": 30}, mm=(10, 1)), one_rank({"compute": 20}, mm=(10, 1))]
    now = [one_rank({"compute": 38}, mm=(11, 11)), one_rank({"compute": 33}, mm=(11, 11))]
    [part] = attribute(before, now, Comparison(change=-0.3, interval=(-0.5, -0.1))).parts
    assert part.by_calls_ms == pytest.approx(10)


def averaged(calls: float, exposed_ms: float) -> Profile:
    rows = {("", "gloo:all_reduce", "exposed communication"): (calls, 4 * exposed_ms)}
    return {0: record({"compute": 30, "exposed communication": exposed_ms}, rows)}


@pytest.mark.parametrize(("calls", "named"), [(24, True), (2, False)])
def test_more_collectives_are_a_count_and_their_time_need_only_show_which_way(
    calls: float, named: bool
):
    # Ranks wait for each other, so that launches of one arm differ by a lot
    before = [averaged(2, 20.6), averaged(2, 7.6)]
    now = [averaged(calls, 29.1), averaged(calls, 63.7)]
    found = attribute(before, now, Comparison(change=-0.4, interval=(-0.5, -0.3)))
    part = found.parts[0]
    assert (part.part, part.named) == ("exposed communication", named)
    assert part.by_calls_ms is None
    assert ("2 to 24 calls" in found.sentence) == named


def test_where_each_pair_of_neighbours_differs_in_another_way_a_count_names_no_time():
    before = [averaged(2, 20), averaged(2, 60)]
    now = [averaged(24, 50), averaged(24, 45)]
    found = attribute(before, now, Comparison(change=-0.4, interval=(-0.5, -0.3)))
    assert not any(part.named for part in found.parts)


@pytest.mark.parametrize("interval", [(-0.2, 0.05), (-0.02, 0.02)])
def test_parts_of_no_judged_change_are_named_by_their_calls_alone(interval: tuple[float, float]):
    slower = Comparison(change=sum(interval) / 2, interval=interval)
    parts = {"compute": 80.0, "Python and launches": 20.0}
    before = [one_rank(parts, mm=(2, 70))] * 2
    now = [one_rank({**parts, "Python and launches": 26.0}, mm=(2, 70))] * 2
    assert not any(part.named for part in attribute(before, now, slower).parts)
    now = [one_rank({"compute": 86.0, "Python and launches": 20.0}, mm=(3, 76))] * 2
    assert [part.part for part in attribute(before, now, slower).parts if part.named] == [
        "compute"
    ]


def test_one_step_that_was_disturbed_hides_no_part():
    def launch(*compute_ms: float) -> Profile:
        found = record({"compute": 0.0})
        found["windows"] = [record({"compute": one})["windows"][0] for one in compute_ms]
        return {0: found}

    steady = launch(*[20.0] * 10)
    disturbed = launch(*[20.0] * 9, 45.0)
    now = [launch(*[40.0] * 10)] * 2
    slower = Comparison(change=-0.5, interval=(-0.55, -0.45))
    [part] = attribute([steady, disturbed], now, slower).parts
    assert part.named
    [part] = attribute([steady, launch(*[20.0] * 5, *[45.0] * 5)], now, slower).parts
    assert not part.named


def test_calls_that_vary_within_an_arm_say_nothing():
    before = [one_rank({"compute": 40}, mm=(2, 40)), one_rank({"compute": 22}, mm=(2, 22))]
    now = [one_rank({"compute": 56}, mm=(3, 56)), one_rank({"compute": 45}, mm=(2, 45))]
    [part] = attribute(before, now, Comparison(change=-0.35)).parts
    assert (part.named, part.by_calls_ms) == (False, None)


def test_the_rank_that_waits_longer_is_named():
    def launch(slow_ms: float) -> Profile:
        alone = {"compute": slow_ms, "exposed communication": 2.0}
        waits = {"compute": 50.0, "exposed communication": slow_ms - 48.0}
        return {0: record(waits), 1: record(alone)}

    found = attribute([launch(50), launch(50.2)], [launch(90), launch(90.2)], SLOWER)
    assert found.rank == 1
    assert [(one.rank, one.named) for one in found.ranks] == [(0, True), (1, False)]
    assert found.sentence.endswith("; rank 0 waits 40 ms longer for rank 1")


def test_memory_at_the_peak_is_compared_by_place():
    def launch(sizes: dict[str, int]) -> Profile:
        found = record({"compute": 50})
        rows = [LiveAllocation(place=p, bytes=size, count=1) for p, size in sizes.items()]
        found["memory"] = LiveMemory(peak_bytes=sum(sizes.values()), allocations=rows)
        return {0: found}

    before = [launch({"a.py(3): f: aten::mm": 10**8}), launch({"a.py(3): f: aten::mm": 10**8})]
    now = [launch({"a.py(3): f: aten::mm": 10**8, "a.py(9): g: aten::cat": 5 * 10**7})] * 2
    found = attribute(before, now, SLOWER)
    assert (found.before_peak_bytes, found.after_peak_bytes) == (10**8, 1.5 * 10**8)
    named = [(one.place, one.before_bytes, one.after_bytes) for one in found.memory if one.named]
    assert named == [("a.py(9): g: aten::cat", 0, 5 * 10**7)]
    assert found.memory[0].named


def allocates(peak_mib: int, place: str = "a.py(9): g: aten::cat", rank: int = 0) -> Profile:
    found = {one: record({"compute": 50.0, "exposed communication": 5.0 + one}) for one in (0, 1)}
    rows = [LiveAllocation(place=place, bytes=peak_mib << 20, count=peak_mib // 100)]
    found[rank]["memory"] = LiveMemory(peak_bytes=peak_mib << 20, allocations=rows)
    found[1 - rank]["memory"] = LiveMemory(peak_bytes=1 << 20, allocations=[])
    return found


GREW = Comparison(change=0.5, verdict=Verdict.REGRESSED)


def test_memory_that_grew_is_said_with_its_places():
    passed = Comparison(change=0.0, interval=(-0.01, 0.01), verdict=Verdict.PASSED)
    before, now = [allocates(200, rank=1)] * 2, [allocates(300, rank=1)] * 2
    found = attribute(before, now, passed, memory=GREW)
    assert found.rank == 1, "that with the highest peak, and not the one that the others wait for"
    assert found.sentence == (
        "of 100 MiB more at the peak of profiled steps: a.py(9): g: aten::cat +100 "
        "(2 to 3 allocations)"
    )
    slower = replace(SLOWER, verdict=Verdict.REGRESSED)
    both = attribute(before, now, slower, memory=GREW)
    assert both.rank == 0
    assert both.sentence.startswith("the profile does not show it: its steps take 0 ms")
    assert "; the profile does not show where the memory grew: " in both.sentence


def test_memory_whose_place_is_not_known():
    passed = Comparison(change=0.0, interval=(-0.01, 0.01), verdict=Verdict.PASSED)
    before, now = [allocates(200)] * 2, [allocates(300)] * 2
    assert attribute([], now, passed, memory=GREW).sentence == (
        "of the 300 MiB at the peak of profiled steps now: a.py(9): g: aten::cat 300; no profile "
        "of before is there to compare with"
    )
    assert attribute(before, before, passed, memory=GREW).sentence == (
        "the profile does not show where the memory grew: its steps allocate 200 to 200 MiB at "
        "their peak"
    )
    without = [one_rank({"compute": 50})] * 2
    assert attribute(without, without, passed, memory=GREW).sentence == (
        "where the memory is allocated was not recorded"
    )


def test_host_stacks_are_shown_where_python_became_longer_most():
    def launch(python_ms: float, compute_ms: float) -> Profile:
        found = record({"compute": compute_ms, "Python and launches": python_ms})
        found["stacks"] = [HostStack(frames="step;sleep", seconds=python_ms / 1000)]
        return {0: found}

    before = [launch(10, 50), launch(10.1, 50)]
    [stack] = attribute(before, [launch(40, 50), launch(40, 50)], SLOWER).stacks
    assert (stack.frames, stack.after_ms) == ("step;sleep", pytest.approx(40))
    assert attribute(before, [launch(10, 90), launch(10, 90)], SLOWER).stacks == ()


def test_modules_have_the_time_of_their_operators():
    found = attribute([], [one_rank({"compute": 70}, mm=(1, 60), add=(2, 5))], SLOWER)
    assert [(one.path, one.before_ms, one.after_ms) for one in found.modules] == [
        ("layer", None, pytest.approx(65))
    ]


def test_what_a_stored_profile_left_out_was_not_added():
    def launch(slower: float, **added: tuple[float, float]) -> Profile:
        rows = {f"op{i}": (1.0, slower * (1 - i / 1000)) for i in range(80)}
        parts = {"compute": sum(ms for _, ms in rows.values()), "host waits": 0.0}
        found = one_rank(parts, **rows, **added)
        # As on a GPU, of which they take no time
        found[0]["operators"] += [
            ProfiledOperator(path="", name="aten::item", part="host waits", calls=3, seconds=0)
        ]
        places = [LiveAllocation(place=f"p{i}", bytes=10**7, count=1) for i in range(25)]
        found[0]["memory"] = LiveMemory(peak_bytes=25 * 10**7, allocations=places)
        return found

    stored: list[Profile] = [{0: kept_record(launch(1.0)[0], 0)}] * 2
    judged = Comparison(change=-0.09, interval=(-0.1, -0.08))
    found = attribute(stored, [launch(1.1)] * 2, judged)
    assert found.sentence == "of 7.68 ms more a step: compute +7.68"
    assert found.operators == ()
    assert not any(one.before_bytes == 0 for one in found.memory)
    [module] = [one for one in found.modules if one.path == "layer"]
    assert module.after_ms == pytest.approx(1.1 * (module.before_ms or 0))
    found = attribute(stored, [launch(1.0, more=(1, 8.0))] * 2, judged)
    assert [one.operator for one in found.operators] == ["aten::more"]
    assert found.operators[0].is_added
