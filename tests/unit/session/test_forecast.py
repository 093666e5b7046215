"""How long a session may take: never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.report.figures import span
from pytest_dlperf.session.estimate import Forecast, Time, alike
from pytest_dlperf.store.history import notes


def case(layout: str, *, suite: str = "net", framework: str = "torch", **protocol: Any) -> Case:
    return Case(
        suite=suite,
        framework=framework,
        workload="w:build",
        precision="fp32",
        batch_size_per_device=4,
        layout=Layout.parse(layout),
        protocol=Protocol(**protocol),
    )


def forecast(
    *cases: Case,
    seconds: dict[str, float],
    about: tuple[float, float] | None = None,
    pairs: bool = False,
    in_pair: float | None = None,
) -> Forecast:
    """Return a forecast by the seconds of a run on each layout; ``in_pair``: that in a pair."""
    return Forecast.of(
        cases,
        lambda one, launches: (
            Time(seconds.get(str(one.layout)), about)
            if launches == 1 or pairs
            else Time(in_pair if in_pair else None)
        ),
        pairs=pairs,
        may_need_pairs=lambda _: in_pair is not None,
    )


def test_cases_runs_and_time() -> None:
    two = forecast(case("1n1c"), case("1n2c"), seconds={"1n1c": 120.0, "1n2c": 240.0})
    assert two.words() == "2 cases, 3 to 10 runs each, 18 to 60 min"
    assert two.count == 2


def test_pairs_are_two_runs() -> None:
    one = forecast(case("1n1c"), seconds={"1n1c": 10.0}, pairs=True)
    assert one.words() == "1 case, 3 to 10 pairs, 1 to 3 min"


def test_a_parent_that_was_not_selected_takes_time_and_is_no_case() -> None:
    one = forecast(case("1n2c"), seconds={"1n1c": 10.0, "1n2c": 10.0})
    assert one.words() == "1 case, 3 to 10 runs, 1 to 2 min"  # 3 + 3 to 10 + 5 runs
    assert one.count == 1


def test_pairs_that_may_follow_are_in_the_upper_end() -> None:
    two = forecast(case("1n1c"), case("1n2c"), seconds={"1n1c": 60, "1n2c": 60}, in_pair=90)
    assert two.words() == (
        "2 cases, 3 to 5 runs each and up to 10 pairs where stored sessions do not decide, "
        "6 to 70 min"
    )
    # A pair that was never measured: two runs, with windows that may become 5 s longer on CPUs
    new = forecast(case("1n1c"), seconds={"1n1c": 60}, in_pair=0)
    assert new.words() == (
        "1 case, 3 to 5 runs and up to 10 pairs where stored sessions do not decide, 3 to 27 min"
    )


def test_what_is_left_has_the_pairs_that_follow_until_the_case_is_decided() -> None:
    one, two = case("1n1c"), case("1n2c")
    made = forecast(one, two, seconds={"1n1c": 10.0, "1n2c": 10.0}, in_pair=20.0)
    assert made.left_s(without=two.id) == 30.0
    for _ in range(3):
        made.learn(one.id, 10.0)
    # 2 and 3 to 5 runs of 10 s, twice 10 pairs of 40 s
    assert made.left() == "about 1 to 14 min for 3 to 47 runs left"
    made.confirms(one.id)
    assert made.left() == "about 2 to 14 min for 9 to 45 runs left"
    assert not made.learn(one.id, 30.0)
    made.learn(one.id, 30.0)  # a pair of 60 s
    assert made.left_s(without=two.id) == 2 * 60.0
    made.ended(one.id)
    assert made.left() == "about 1 to 8 min for 3 to 25 runs left"
    made.ended(two.id)
    assert made.left() == ""


def test_the_first_pair_is_news_where_none_was_measured() -> None:
    one = case("1n1c")
    made = forecast(one, seconds={"1n1c": 10.0}, in_pair=0)
    made.confirms(one.id)
    assert made.left() == "about 1 to 5 min for 6 to 20 runs left"
    assert made.learn(one.id, 30.0)
    assert made.left() == "about 2 to 10 min for 5 to 19 runs left"


def test_what_was_never_measured_is_estimated_after_the_first_run() -> None:
    later = "; an estimate follows after the first run of each, which ends within"
    alone = forecast(case("1n1c"), seconds={})
    assert alone.words() == f"1 case, 3 to 10 runs{later} 30 min (--dlperf-timeout)"
    one = forecast(case("1n2c", timeout_s=60.0), seconds={})
    assert one.words() == (
        f"1 case, 3 to 10 runs, and 3 to 5 runs of its one-device parent{later} 60 s "
        "(--dlperf-timeout)"
    )
    two = forecast(case("1n2c"), case("1n2c", suite="other"), seconds={})
    assert two.words() == (
        "2 cases, 3 to 10 runs each, and 3 to 5 runs of 2 one-device parents"
        f"{later} 30 min (--dlperf-timeout)"
    )
    pairs = forecast(case("1n1c"), seconds={}, pairs=True)
    assert pairs.words() == f"1 case, 3 to 10 pairs{later} 30 min (--dlperf-timeout)"


def test_what_other_cases_took_is_an_estimate_and_named_so() -> None:
    cases = case("1n1c", adaptive=False, runs=2), case("1n2c", adaptive=False, runs=2)
    known = {"1n1c": 10.0}
    half = forecast(*cases, seconds=known)
    assert half.words() == (
        "2 cases, 2 runs each, 20 s for 1 of 2, others not known before their first run"
    )
    about = forecast(*cases, seconds=known, about=(5.0, 30.0))
    assert about.words() == "2 cases, 2 runs each, about 30 to 80 s by what other cases took here"
    pair = forecast(cases[0], seconds={}, about=(5.0, 30.0), pairs=True)
    assert pair.words() == "1 case, 2 pairs, about 1 to 2 min by what other cases took here"


def test_the_first_run_of_a_case_bounds_the_rest() -> None:
    one, two = case("1n1c"), case("1n2c")
    made = forecast(two, seconds={})
    assert made.learn(one.id, 10.0)
    # 2 to 4 of the parent, and 3 to 10 of the case, which is taken to be like its parent
    assert made.left() == "about 1 to 2 min for 5 to 14 runs left"
    assert not made.learn(one.id, 10.0)
    made.learn(one.id, 10.0)
    assert made.learn(two.id, 20.0)
    assert made.left() == "about 1 to 3 min for 2 to 11 runs left"
    made.ended(two.id)
    assert made.left() == ""
    assert not made.learn(two.id, 20.0)


def test_a_case_of_another_framework_gives_no_estimate() -> None:
    torch, paddle = case("1n1c"), case("1n1c", framework="paddle")
    made = forecast(torch, paddle, seconds={})
    made.learn(torch.id, 10.0)
    assert made.left() == "about 20 to 90 s for 2 to 9 runs left; 1 case is not known yet"


def test_a_time_that_was_known_is_no_news() -> None:
    made = forecast(case("1n1c"), seconds={"1n1c": 10.0})
    assert not made.learn(case("1n1c").id, 11.0)


def test_a_run_of_a_pair_is_half_of_it() -> None:
    made = forecast(case("1n1c", adaptive=False, runs=2), seconds={}, pairs=True)
    assert made.learn(case("1n1c").id, 10.0)
    assert made.left() == "about 30 s for 3 runs left"


def test_nothing_is_left_of_one_run() -> None:
    made = forecast(case("1n1c", adaptive=False, runs=1), seconds={})
    assert made.learn(case("1n1c").id, 10.0)
    assert made.left() == ""


def test_a_parent_is_needed_until_its_last_child_has_ended() -> None:
    two, four, one = case("1n2c"), case("1n4c"), case("1n1c")
    made = forecast(two, four, seconds={"1n1c": 1.0, "1n2c": 2.0, "1n4c": 4.0})
    assert made.left_s(without=two.id) == 3 * 1.0 + 3 * 4.0
    made.ended(two.id)
    assert made.left_s(without=four.id) == 3.0
    made.learn(one.id, 1.0)
    assert made.left_s(without=four.id) == 2.0
    made.ended(four.id)
    assert made.left_s(without="") == 0.0


def test_what_is_left_shrinks_and_is_learnt() -> None:
    one, two = case("1n1c"), case("1n2c")
    made = forecast(one, two, seconds={"1n1c": 10.0})
    assert made.left_s(without=one.id) is None
    assert made.left_s(without=two.id) == 30.0
    made.learn(two.id, 20.0)
    assert made.left_s(without=one.id) == 40.0
    made.ended(one.id)
    assert made.left_s(without=two.id) == 0.0


def test_the_cases_most_like_one_give_its_estimate() -> None:
    def known(text: str) -> CaseId:
        return CaseId.parse(text)

    times = [
        (known("net-torch-bf16-bs4-1n1c"), 20.0),
        (known("net-torch-fp32-bs4-1n4c"), 30.0),
        (known("net.tiny-torch-fp32-bs4-1n1c"), 2.0),
        (known("other-torch-fp32-bs4-1n1c"), 90.0),
        (known("net-torch-fp32-bs4-1n1g"), 1.0),
        (known("net-paddle-fp32-bs4-1n1c"), 3.0),
    ]
    assert alike(known("net-torch-fp32-bs4-1n2c"), times) == (20.0, 30.0)
    assert alike(known("third-torch-fp32-bs4-1n2c"), times) == (2.0, 90.0)
    assert alike(known("net-tensorflow-fp32-bs4-1n2c"), times) is None


def test_times_of_other_hardware_or_another_window_do_not_count() -> None:
    times = {
        "2x-cpu net-torch-fp32-bs4-1n1c 150": 10.0,
        "4x-cpu net-torch-fp32-bs4-1n1c 150": 20.0,
        "2x-cpu net-torch-fp32-bs4-1n4c 30": 30.0,
        "2x-cpu nonsense 150": 40.0,
        "": 50.0,
    }
    found = notes.run_times_of_others(times, case("1n2c"), "2x-cpu")
    assert found == [(CaseId.parse("net-torch-fp32-bs4-1n1c"), 10.0)]


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (0.01, 0.02, "1 s"),
        (30, 90, "30 to 90 s"),
        (1080, 3600, "18 to 60 min"),
        (10, 600, "1 to 10 min"),
        (7200, 36000, "2.0 to 10.0 h"),
    ],
)
def test_a_span_of_time(low_s: float, high_s: float, words: str) -> None:
    assert span(low_s, high_s) == words
