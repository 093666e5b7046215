"""What more runs, and reading back, must and must not change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Prior, Rule
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.stats.contrast import SessionValue
from pytest_dlperf.judge.stats.stored import contrast
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.judge_builders import baseline, case, measurement, paired_contrast, session

few = settings(max_examples=60, deadline=None, derandomize=True)
COUNTS = st.integers(3, 40)
PRIORS = st.builds(
    Prior,
    run_sd=st.floats(0.001, 0.05),
    session_sd=st.floats(0.001, 0.05),
    run_df=st.floats(4, 30),
    session_df=st.floats(4, 30),
)


def spread(count: int, sd: float) -> list[float]:
    """Values whose mean is 0 and whose sample standard deviation is ``sd``."""
    values = np.arange(count) - (count - 1) / 2
    return [float(x) for x in sd * values / np.std(values, ddof=1)]


def level(count: int, sd: float) -> SessionValue:
    return SessionValue(amount=1.0, value=0.0, samples=(tuple(spread(count, sd)),))


@given(COUNTS, st.integers(1, 20), st.floats(0.0005, 0.05), PRIORS)
@few
def test_more_pairs_of_the_same_spread_never_widen_the_interval(count, more, sd, prior) -> None:
    widths = []
    for pairs in (count, count + more):
        found = paired_contrast(spread(pairs, sd), [0.0] * pairs, prior)
        widths.append((found.upper(0.05) - found.lower(0.05), -found.certified(0.05)))
    assert widths[1][0] <= widths[0][0] * (1 + 1e-9)
    assert widths[1][1] <= widths[0][1] * (1 + 1e-9)


@given(st.integers(2, 20), st.integers(1, 10), st.floats(0.0005, 0.05), PRIORS)
@few
def test_more_runs_of_the_same_spread_never_widen_the_interval(half, more, sd, prior) -> None:
    # Medians of odd numbers of runs: those of even ones are another estimator.
    stored = [level(5, sd)] * 5
    widths = []
    for runs in (2 * half + 1, 2 * (half + more) + 1):
        found = contrast([level(runs, sd)], stored, prior)
        widths.append(found.upper(0.05) - found.lower(0.05))
    assert widths[1] <= widths[0] * (1 + 1e-9)


@given(st.lists(st.lists(st.floats(90, 110), min_size=1, max_size=6), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_reading_a_baseline_back_changes_no_verdict(tmp_path_factory, sessions) -> None:
    subject = case("1n2c")
    root: Path = tmp_path_factory.mktemp("baselines")
    stored = baseline(
        *(replace(session(runs), commit=str(i)) for i, runs in enumerate(sessions)),
        case_id=subject.id,
        suite=subject.suite,
    )
    stored = replace(stored, machine_class="2x-test")
    BaselineStore(root).write(stored)
    found = BaselineStore(root).find("2x-test", subject.suite, subject.id)
    rule = Rule(family=24)
    now = measurement([97.0, 98.0, 99.0])
    assert judge(subject, now, found, rule) == judge(subject, now, stored, rule)
