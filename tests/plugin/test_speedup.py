"""What a speedup is over: one device, a layout of its own, or nothing that can run."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import TESTS, Suite

TWO, FOUR = "net-torch-fp32-bs4-1n2c", "net-torch-fp32-bs4-1n4c"
#: A machine with eight cores.
CORES = "import os\nos.sched_getaffinity = lambda pid: set(range(8))\n"
#: One stored session of CPUs certifies nothing within 5 %.
ROOM = "--dlperf-tolerance=20%"
TOO_LARGE = "torch.OutOfMemoryError: tried to allocate 20.00 GiB"


def two_ranks(suite: Suite, speedup: str | None) -> None:
    suite.write(TESTS.replace('["1n1c", "1n2c"]', f'"1n2c", speedup={speedup!r}'))


def four_ranks(suite: Suite, speedup: str) -> None:
    suite.write_file("conftest.py", CORES)
    suite.write(TESTS.replace('["1n1c", "1n2c"]', f'"1n4c", speedup={speedup!r}'))


@pytest.mark.nightly
def test_a_model_too_large_for_one_device_is_gated_against_its_baseline(suite: Suite):
    """The out-of-memory of one device was the error of the case on two."""
    two_ranks(suite, "one-device")
    suite.env(FAKE_FAIL="*-1n1c/run*", FAKE_ERROR=TOO_LARGE)
    result, outcomes = suite.outcomes("--update-baselines")
    assert result.ret == 0
    result.stdout.fnmatch_lines([
        f"note: {TWO}: the speedup over one device is not known, as that failed:"
        f" *{TOO_LARGE}*speedup=None leaves it out*"
    ])  # fmt: skip
    measurement = outcomes[TWO]["measurement"]
    assert measurement["speedup"] is None
    assert [problem["code"] for problem in measurement["problems"]] == ["speedup-unknown"]
    assert suite.baselines()[TWO]["sessions"][0]["speedup"] is None
    assert suite.verdicts("--dlperf-strict", ROOM) == {TWO: "passed"}
    assert suite.verdicts("--dlperf-inject=40%") == {TWO: "regressed"}


@pytest.mark.slow
def test_a_failed_parent_is_launched_once(suite: Suite):
    two_ranks(suite, "one-device")
    log = suite.path / "launches"
    suite.env(FAKE_FAIL="*-1n1c/run*", FAKE_ERROR=TOO_LARGE, FAKE_LOG=log)
    suite.verdicts("--dlperf-runs=4")
    launched = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
    assert sorted(launched) == ["net-torch-fp32-bs4-1n1c", *[TWO] * 4]


@pytest.mark.nightly  # the gate has its main way
def test_a_speedup_that_was_stored_and_is_lost_is_said(suite: Suite):
    two_ranks(suite, "one-device")
    suite.verdicts("--update-baselines")
    suite.env(FAKE_FAIL="*-1n1c/run*", FAKE_ERROR=TOO_LARGE)
    _, outcomes = suite.outcomes(ROOM)
    judgement = outcomes[TWO]["judgement"]
    assert judgement["verdict"] == "passed"
    assert "its speedup is not judged, as it could not be measured" in "".join(
        judgement["details"]
    )
    assert "speedup" not in judgement["metrics"]


@pytest.mark.nightly  # the gate has a speedup of two ranks
def test_without_a_speedup_no_parent_runs(suite: Suite):
    two_ranks(suite, None)
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    suite.verdicts("--update-baselines")
    assert suite.verdicts(ROOM) == {TWO: "passed"}
    assert {line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()} == {TWO}


@pytest.mark.slow
def test_a_speedup_over_two_ranks_is_gated(suite: Suite):
    four_ranks(suite, "1n2c")
    _, outcomes = suite.outcomes("--update-baselines")
    measurement = outcomes[FOUR]["measurement"]
    assert measurement["reference"] == "1n2c"
    assert measurement["speedup"] == pytest.approx(2, rel=0.05)
    assert measurement["efficiency"] == pytest.approx(1, rel=0.05)
    assert suite.baselines()[FOUR]["sessions"][0]["reference"] == "1n2c"
    _, outcomes = suite.outcomes()
    speedup = outcomes[FOUR]["judgement"]["metrics"]["speedup"]
    assert speedup["before"] == pytest.approx(2, rel=0.05)
    _, outcomes = suite.outcomes("--dlperf-inject=*-1n4c:40%")
    judgement = outcomes[FOUR]["judgement"]
    assert (judgement["verdict"], judgement["metrics"]["speedup"]["verdict"]) == (
        "regressed", "regressed",
    )  # fmt: skip


@pytest.mark.nightly  # the gate has one that is compared
def test_a_speedup_over_another_layout_is_not_compared(suite: Suite):
    four_ranks(suite, "one-device")
    suite.verdicts("--update-baselines")
    four_ranks(suite, "1n2c")
    _, outcomes = suite.outcomes(ROOM)
    judgement = outcomes[FOUR]["judgement"]
    assert judgement["verdict"] == "passed"
    assert "speedup" not in judgement["metrics"]
    assert "its speedup over 1n2c is not judged, as the stored one is over one device" in "".join(
        judgement["details"]
    )


@pytest.mark.slow
def test_a_layout_that_gives_no_speedup_is_a_plain_error(suite: Suite):
    two_ranks(suite, "1n2c")
    result = suite.run()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*speedup='1n2c': no declared layout (1n2c) is larger*"])
