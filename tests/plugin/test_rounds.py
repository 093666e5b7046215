"""Runs of several cases go in rounds, with a fake launcher that logs each launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

TESTS = """
import os
import pytest

@pytest.fixture
def server():
    return 1

def case(batch, **fields):
    return pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", suite="net",
                              batch_size_per_device=batch, speedup=None, **fields)
"""
PLAIN = """
@case({0})
def test_{0}(dlperf):
    dlperf.run()
"""
FOUR, EIGHT, SIXTEEN = (f"net-torch-fp32-bs{batch}-1n1c" for batch in (4, 8, 16))


@pytest.fixture
def log(suite: Suite) -> Path:
    suite.write(TESTS + PLAIN.format(4) + PLAIN.format(8))
    suite.env(FAKE_LOG=suite.path / "launches")
    return suite.path / "launches"


def launches(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]


def test_runs_go_in_rounds_and_each_test_measures_its_last(suite: Suite, log: Path):
    result, outcomes = suite.outcomes("--dlperf-runs=3")
    assert launches(log) == [FOUR, EIGHT] * 3
    assert result.ret == 0, result.stdout.str()
    assert [len(outcome["measurement"]["runs"]) for outcome in outcomes.values()] == [3, 3]
    assert f"[in rounds] {EIGHT} run 2/3" in result.stdout.str()
    assert f"[2/2] {EIGHT} run 3/3" in result.stdout.str()


@pytest.mark.parametrize(
    "option",
    [
        "--dlperf-budget=1h",  # how long a run takes is not known
        "--dlperf-against=OMP_NUM_THREADS=2",
    ],
)
@pytest.mark.nightly  # the gate has its main way
def test_where_the_order_has_a_meaning_each_test_measures_all(
    suite: Suite, log: Path, option: str
):
    suite.outcomes("--dlperf-runs=2", option)
    found = launches(log)
    assert found == sorted(found, key=[FOUR, EIGHT].index)


@pytest.mark.parametrize(
    "other",
    [
        "@case(16)\ndef test_16(dlperf, server):\n    dlperf.run()",
        "@case(16)\n@pytest.mark.skipif('0')\ndef test_16(dlperf):\n    dlperf.run()",
        "@case(16)\ndef test_16(dlperf):\n    os.chdir('.')\n    dlperf.run()",
    ],
)
@pytest.mark.nightly  # the gate has its main way
def test_a_case_with_more_than_its_marker_is_measured_in_its_test(
    suite: Suite, log: Path, other: str
):
    suite.write(TESTS + PLAIN.format(4) + PLAIN.format(8) + other)
    suite.outcomes("--dlperf-runs=2")
    assert launches(log) == [FOUR, EIGHT, FOUR, EIGHT, *[FOUR.replace("bs4", "bs16")] * 2]


@pytest.mark.slow
def test_where_no_body_is_run_nothing_is_launched(suite: Suite, log: Path):
    suite.run("--setup-plan")
    assert not log.exists()


@pytest.mark.slow
def test_a_skipped_case_is_never_launched(suite: Suite, log: Path):
    skipped = "@case(16)\n@pytest.mark.skip\ndef test_16(dlperf):\n    dlperf.run()"
    suite.write(TESTS + PLAIN.format(4) + PLAIN.format(8) + skipped)
    suite.outcomes("--dlperf-runs=2")
    assert set(launches(log)) == {FOUR, EIGHT}


@pytest.mark.slow
def test_where_the_environment_changed_a_case_and_its_parent_are_measured_again(
    suite: Suite, log: Path
):
    change = "    os.environ['A_B'] = 'secret'\n    os.environ['A_C'] = '1'\n    os.chdir('sub')\n"
    two = "@case(4, layout='1n2c')\ndef test_two(dlperf):\n    dlperf.run()"
    suite.path.joinpath("sub").mkdir()
    suite.write(
        TESTS.replace('layout="1n1c", ', "").replace("speedup=None, ", "")
        + PLAIN.format(8).replace("@case(8)", "@case(8, layout='1n1c')")
        + change
        + two
    )
    result, outcomes = suite.outcomes("--dlperf-runs=2")
    case_id = FOUR.replace("1n1c", "1n2c")
    assert result.ret == 0, result.stdout.str()
    in_rounds, last = [EIGHT, FOUR, case_id], [EIGHT]
    assert launches(log)[:4] == [*in_rounds, *last]
    assert sorted(launches(log)[4:]) == sorted([FOUR, case_id] * 2)
    assert len(outcomes[case_id]["measurement"]["runs"]) == 2
    note = "A_B, A_C and the working folder changed after its runs in rounds"
    for one in (case_id, FOUR):
        result.stdout.fnmatch_lines([f"*{one}: {note}*"])
    assert "secret" not in result.stdout.str()


@pytest.mark.slow
def test_a_run_that_fails_in_its_round_is_its_tests_error_and_not_launched_again(
    suite: Suite, log: Path
):
    suite.env(FAKE_FAIL=f"*{EIGHT}*")
    result, outcomes = suite.outcomes("--dlperf-runs=3")
    assert launches(log) == [FOUR, EIGHT, FOUR, FOUR]
    assert result.ret == 1
    assert outcomes[EIGHT]["judgement"]["verdict"] == "error"
    assert outcomes[EIGHT]["judgement"]["reason"].startswith(f"{EIGHT}: rank 0: ValueError: boom")
    assert outcomes[FOUR]["judgement"]["verdict"] == "no-baseline"


PREPARES = """
import pathlib

def test_prepare():
    pathlib.Path("ready").touch()
"""


@pytest.mark.slow
def test_what_an_earlier_test_prepares_is_there_when_the_case_is_launched_again(
    suite: Suite, log: Path
):
    plain = PLAIN.format(4) + PLAIN.format(8)
    suite.write(TESTS + PREPARES + plain)
    suite.env(FAKE_NEEDS=suite.path / "ready")
    result, outcomes = suite.outcomes("--dlperf-runs=2")
    assert result.ret == 0, result.stdout.str()
    assert launches(log) == [FOUR, EIGHT] + [FOUR] * 2 + [EIGHT] * 2
    assert {len(one["measurement"]["runs"]) for one in outcomes.values()} == {2}
    result.stdout.fnmatch_lines([f"*{FOUR}: its run in rounds failed: it is launched again*"])
    # What comes later prepares nothing
    (suite.path / "ready").unlink()
    suite.write(TESTS + plain + PREPARES)
    _, outcomes = suite.outcomes("--dlperf-runs=2")
    assert {one["judgement"]["verdict"] for one in outcomes.values()} == {"error"}


@pytest.mark.slow
def test_with_x_nothing_more_is_launched_once_a_run_failed(suite: Suite, log: Path):
    suite.write(TESTS + "".join(PLAIN.format(batch) for batch in (4, 8, 16)))
    suite.env(FAKE_FAIL=f"*{EIGHT}*")
    result, outcomes = suite.outcomes("--dlperf-runs=3", "-x")
    # The first case is measured in its own test, and the last one never
    assert launches(log) == [FOUR, EIGHT, FOUR, FOUR]
    assert result.ret == 1
    assert {one: found["judgement"]["verdict"] for one, found in outcomes.items()} == {
        FOUR: "no-baseline", EIGHT: "error", SIXTEEN: "not-run",
    }  # fmt: skip
    why = "it was not measured: the session ended before its test (stopping after 1 failures)"
    assert outcomes[SIXTEEN]["judgement"]["reason"] == why


@pytest.mark.nightly  # the gate has rounds, and budgets, apart
def test_a_budget_has_rounds_for_as_many_cases_as_it_has_time_for(suite: Suite, log: Path):
    suite.env(FAKE_STEP_S=0.005)
    suite.outcomes("--dlperf-runs=2")
    known = suite.path / ".dlperf/run_times.json"
    times = json.loads(known.read_text("utf-8"))
    log.unlink()
    suite.outcomes("--dlperf-runs=2", "--dlperf-budget=1h")
    assert launches(log) == [FOUR, EIGHT] * 2
    # The last one does not end in time, as far as earlier runs show
    sixteen = FOUR.replace("bs4", "bs16")
    suite.write(TESTS + "".join(PLAIN.format(batch) for batch in (4, 8, 16)))
    slow = {name.replace("bs4", "bs16"): 3000.0 for name in times if "bs4" in name}
    known.write_text(json.dumps(times | slow), encoding="utf-8")
    log.unlink()
    suite.outcomes("--dlperf-runs=2", "--dlperf-budget=1h")
    assert launches(log) == [*[FOUR, EIGHT] * 2, *[sixteen] * 2]


@pytest.mark.slow
def test_the_processes_of_xdist_share_the_rounds(suite: Suite, log: Path):
    cases = [FOUR.replace("bs4", f"bs{batch}") for batch in (4, 8, 16, 32)]
    suite.write(TESTS + "".join(PLAIN.format(batch) for batch in (4, 8, 16, 32)))
    suite.env(FAKE_FAIL=f"*{cases[3]}*")
    result, outcomes = suite.outcomes("--dlperf-runs=3", "-n2")
    found = launches(log)
    # Two runs of each case in rounds, the third in its test, and no second one of what failed
    assert sorted(found) == sorted(cases[:3] * 3 + cases[3:])
    assert set(found[:4]) == set(cases)
    assert result.ret == 1
    assert outcomes[cases[3]]["judgement"]["reason"].startswith(f"{cases[3]}: rank 0: ValueError")
    assert [len(outcomes[one]["measurement"]["runs"]) for one in cases[:3]] == [3] * 3


@pytest.mark.nightly  # the gate has its main way
def test_where_the_processes_of_xdist_differ_each_test_measures_all(suite: Suite, log: Path):
    """As each might be given a GPU of its own: no case has runs of both."""
    suite.write_file(
        "conftest.py",
        "import os\n"
        "def pytest_configure():\n"
        "    os.environ['A_B'] = os.environ.get('PYTEST_XDIST_WORKER', '')\n",
    )
    result, outcomes = suite.outcomes("--dlperf-runs=3", "-n2")
    assert "are not measured in rounds, as the workers differ in A_B" in result.stderr.str()
    assert sorted(launches(log)) == [*[FOUR] * 3, *[EIGHT] * 3]
    assert [len(one["measurement"]["runs"]) for one in outcomes.values()] == [3, 3]
    found = launches(log)
    assert found == sorted(found, key=found.index), "the host is one test's at a time"


@pytest.mark.slow
def test_a_parent_that_fails_is_launched_once_in_rounds_and_is_a_note(suite: Suite, log: Path):
    two = "@case(4, layout='1n2c')\ndef test_two(dlperf):\n    dlperf.run()"
    suite.write(
        TESTS.replace('layout="1n1c", ', "").replace("speedup=None, ", "")
        + two
        + PLAIN.format(8).replace("@case(8)", "@case(8, layout='1n1c')")
    )
    suite.env(FAKE_FAIL=f"*{FOUR}*")
    result, outcomes = suite.outcomes("--dlperf-runs=3")
    assert result.ret == 0, result.stdout.str()
    case_id = FOUR.replace("1n1c", "1n2c")
    assert launches(log).count(case_id) == 3
    assert launches(log).count(FOUR) == 2
    problems = [p["code"] for p in outcomes[case_id]["measurement"]["problems"]]
    assert "speedup-unknown" in problems


@pytest.mark.slow
def test_a_parametrized_case_goes_in_rounds(suite: Suite, log: Path):
    suite.write(
        TESTS
        + """
@pytest.mark.parametrize("seq", [16, 32])
@case(4)
def test_seq(dlperf, seq):
    dlperf.run()
"""
    )
    suite.outcomes("--dlperf-runs=2")
    one, other = (f"net-torch-fp32-bs4-seq{seq}-1n1c" for seq in (16, 32))
    assert launches(log) == [one, other, one, other]


@pytest.mark.slow
def test_a_case_that_is_taken_from_an_interrupted_session_is_not_run(suite: Suite, log: Path):
    suite.outcomes("--dlperf-runs=2", "-k", "test_4")
    (suite.path / "r.json").rename(suite.path / "old.json")
    log.unlink()
    suite.write(TESTS + PLAIN.format(4) + PLAIN.format(8) + PLAIN.format(16))
    _, outcomes = suite.outcomes("--dlperf-runs=2", "--dlperf-resume=old.json")
    sixteen = FOUR.replace("bs4", "bs16")
    # Outcomes come one by one, so that an interrupted session gets further at each try.
    assert launches(log) == [EIGHT, EIGHT, sixteen, sixteen]
    assert outcomes[FOUR]["taken_from"].endswith("old.json")
