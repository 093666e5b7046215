"""A large slowdown fails on a machine too noisy to certify anything, and -q says what is open."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

ONE = "net-torch-fp32-bs4-1n1c"
OPTIONS = ("--cpus=1", "--dlperf-runs=3", "--dlperf-tolerance=5%")


@pytest.mark.slow
def test_only_what_noise_cannot_explain_fails_and_quiet_output_names_the_rest(
    suite: Suite,
) -> None:
    suite.env(FAKE_NOISY="*", FAKE_SEED=1)
    assert suite.run("--update-baselines", *OPTIONS).ret == 0
    suite.env(FAKE_NOISY="", FAKE_STEP_S=0.013)
    result, outcomes = suite.outcomes("-q", *OPTIONS)
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "inconclusive"
    assert judgement["interval"][0] < judgement["change"] < judgement["interval"][1]
    assert result.ret == 0
    seen = f"{100 * judgement['change']:+.1f} %"
    result.stdout.fnmatch_lines(
        [
            "dlperf: 1 case: 1 inconclusive; 1 NOT JUDGED",
            f"{ONE} ({seen}, 90 % interval [[]*: inconclusive: *",
        ]
    )
    suite.env(FAKE_STEP_S=0.15)
    result, outcomes = suite.outcomes(*OPTIONS)
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert result.ret == 1
