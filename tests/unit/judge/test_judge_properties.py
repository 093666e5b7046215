"""What must hold for any numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import baseline, case, measurement, session

pytestmark = pytest.mark.newest

RULE = Rule(family=24)
SUBJECTS = [case("1n2g"), case("1n2c")]
RATES = st.lists(st.floats(90, 110), min_size=1, max_size=6)
SESSIONS = st.lists(RATES, min_size=1, max_size=4)
subjects = st.sampled_from(SUBJECTS)
few = settings(max_examples=60, deadline=None, derandomize=True)

#: From bad to good.
ORDER = [Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.PASSED, Verdict.IMPROVED]


@given(subjects, RATES, SESSIONS, st.sampled_from([1e-3, 0.5, 4.0, 1e6]))
@few
def test_the_scale_of_the_unit_does_not_matter(subject, now, before, factor) -> None:
    one = judge(subject, measurement(now), baseline(*map(session, before)), RULE)
    scaled = [[rate * factor for rate in rates] for rates in before]
    other = judge(
        subject,
        measurement([rate * factor for rate in now]),
        baseline(*map(session, scaled)),
        RULE,
    )
    assert one.verdict is other.verdict
    for name in ("change", "sees", "tolerance", "interval"):
        mine, theirs = getattr(one.throughput, name), getattr(other.throughput, name)
        assert mine == pytest.approx(theirs, abs=1e-9)


@given(subjects, RATES, SESSIONS, st.floats(0.3, 1), st.floats(0.3, 1), st.booleans())
@few
def test_slower_is_never_better(subject, now, before, one, other, given_tolerance) -> None:
    rule = replace(RULE, tolerance=0.1 if given_tolerance else None)
    stored = baseline(*map(session, before))
    verdicts = [
        judge(subject, measurement([rate * factor for rate in now]), stored, rule).verdict
        for factor in sorted((one, other))
    ]
    assert ORDER.index(verdicts[0]) <= ORDER.index(verdicts[1])


@given(subjects, RATES, SESSIONS, st.randoms(use_true_random=False))
@few
def test_the_order_of_runs_and_sessions_does_not_matter(subject, now, before, rng) -> None:
    def shuffled(values):
        return rng.sample(values, len(values))

    one = judge(subject, measurement(now), baseline(*map(session, before)), RULE)
    mixed = [shuffled(rates) for rates in shuffled(before)]
    other = judge(subject, measurement(shuffled(now)), baseline(*map(session, mixed)), RULE)
    assert one.verdict is other.verdict
    assert one.throughput.interval == pytest.approx(other.throughput.interval, abs=1e-9)


@given(subjects, RATES, SESSIONS, st.integers(1, 200))
@few
def test_a_larger_suite_sees_less_and_certifies_the_same(subject, now, before, family) -> None:
    stored = baseline(*map(session, before))
    alone = judge(subject, measurement(now), stored, replace(RULE, family=1))
    among = judge(subject, measurement(now), stored, replace(RULE, family=family))
    assert alone.throughput.interval == among.throughput.interval
    assert alone.throughput.tolerance == among.throughput.tolerance
    assert alone.throughput.sees is not None
    assert among.throughput.sees is not None
    assert alone.throughput.sees <= among.throughput.sees


@given(subjects, RATES, SESSIONS)
@few
def test_the_interval_holds_the_change_and_each_line_is_one_sentence(subject, now, before) -> None:
    judged = judge(subject, measurement(now), baseline(*map(session, before)), RULE)
    found = judged.throughput
    assert found.now == measurement(now).throughput
    if judged.verdict is not Verdict.UNSTEADY:
        assert found.interval is not None
        assert found.change is not None
        assert found.interval[0] < found.change < found.interval[1]
        assert found.change == pytest.approx(found.now / found.before - 1, abs=1e-9)
    assert judged.text
    assert ". " not in judged.text
    assert len(judged.details) == 1
    assert "\n" not in judged.details[0]
