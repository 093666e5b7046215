"""Launches that explain a verdict, around a training that is simulated."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.helpers.fake_py_spy import write_py_spy
from tests.helpers.fake_suite import Suite

AGAINST = ("--cpus=2", "--dlperf-runs=3", "--dlperf-against=FAKE_STEP_S=0.01 FAKE_PROFILE=0.8")
ID = "net-torch-fp32-bs4-1n2c"


def launches(suite: Suite) -> list[str]:
    return sorted(path.name for path in suite.path.glob(".dlperf/**/explain?") if path.is_dir())


@pytest.mark.slow
def test_a_regression_is_explained_by_four_launches_that_count_for_nothing(suite: Suite):
    suite.env(FAKE_STEP_S="0.02", FAKE_PROFILE="0.4")
    result, outcomes = suite.outcomes(*AGAINST)
    outcome = outcomes[ID]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert launches(suite) == ["explain1", "explain2", "explain3", "explain4"]
    assert len(outcome["measurement"]["runs"]) == 3
    assert len(outcome["against"]["measurement"]["runs"]) == 3
    found = outcome["explanation"]
    assert found["agrees"] is True
    assert {p["part"]: p["named"] for p in found["parts"]} == {
        "Python and launches": True,
        "compute": False,
    }
    assert found["sentence"] in outcome["judgement"]["reason"]
    result.stdout.fnmatch_lines(["*explains the verdict: 4 more launches with a profile*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("now", "option", "expected"),
    [("0.01", (), 0), ("0.02", ("--dlperf-explain=never",), 0),
     ("0.01", ("--dlperf-explain=always",), 4)],
)  # fmt: skip
@pytest.mark.nightly  # the gate has its main way
def test_without_a_regression_nothing_is_launched_unless_asked(
    suite: Suite, now: str, option: tuple[str, ...], expected: int
):
    suite.env(FAKE_STEP_S=now, FAKE_PROFILE="0.8")
    _, outcomes = suite.outcomes(*AGAINST, *option)
    assert len(launches(suite)) == expected
    assert (outcomes[ID]["explanation"] is not None) == bool(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"FAKE_PROFILE": "torch.profiler failed: boom"}, "torch.profiler failed: boom"),
        pytest.param(
            {"FAKE_PROFILE": "0.8", "FAKE_FAIL": "*explain*"}, "boom", marks=pytest.mark.nightly
        ),
        (
            {"FAKE_PROFILE": "0.8", "FAKE_KILLED": "*explain*"},
            "the launcher was killed by signal 9",
        ),
        pytest.param({}, "not every rank wrote one", marks=pytest.mark.nightly),
    ],
)
def test_a_profile_that_fails_is_a_note_and_changes_no_verdict(
    suite: Suite, fault: dict[str, str], words: str
):
    suite.env(FAKE_STEP_S="0.02", **fault)
    against = "--dlperf-against=FAKE_STEP_S=0.01"
    result, outcomes = suite.outcomes("--cpus=2", "--dlperf-runs=3", against)
    outcome = outcomes[ID]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert "profile" not in outcome["judgement"]["reason"]
    assert outcome["explanation"]["parts"] == []
    assert "profile 1 of 4 failed" in outcome["explanation"]["note"]
    assert words in outcome["explanation"]["note"]
    result.stdout.fnmatch_lines([f"note: {ID}: the cause is not known: profile 1 of 4 failed*"])
    assert launches(suite) == ["explain1"]
    assert suite.ours() == []


@pytest.mark.slow
@pytest.mark.nightly  # the gate has its main way
def test_a_session_that_ends_while_steps_are_profiled_keeps_the_verdict(suite: Suite):
    (suite.path / "conftest.py").write_text(
        textwrap.dedent(
            """
            import os, signal, threading, time

            def end():
                # Not glob, which may raise where a folder goes meanwhile
                while not any("explain1" in names for _, names, _ in os.walk(".dlperf")):
                    time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGTERM)

            threading.Thread(target=end, daemon=True).start()
            """
        ),
        encoding="utf-8",
    )
    suite.env(FAKE_STEP_S="0.02", FAKE_PROFILE="0.4", FAKE_HANG="*explain*")
    result, outcomes = suite.outcomes(*AGAINST)
    assert result.ret == 143
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "regressed"
    assert not outcome["interrupted"]
    assert "was interrupted" in outcome["explanation"]["note"]
    assert "went on after" not in result.stdout.str()


# It waits for its budget
@pytest.mark.slow
@pytest.mark.nightly
def test_profiles_end_with_the_budget(suite: Suite):
    """Without one the first that hangs ends a minute after the longest run."""
    suite.env(FAKE_STEP_S="0.02", FAKE_PROFILE="0.4", FAKE_HANG="*explain*")
    _, outcomes = suite.outcomes(*AGAINST, "--dlperf-budget=45s")
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "regressed"
    [ended_s] = re.findall(r"it was ended after (\d+) s", outcome["explanation"]["note"])
    assert int(ended_s) < 45


@pytest.mark.slow
def test_memory_alone_that_grew_is_explained_by_where_it_is_allocated(suite: Suite):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="0.8", FAKE_MEMORY="200000000")
    against = "--dlperf-against=FAKE_MEMORY=100000000"
    result, outcomes = suite.outcomes(*AGAINST[:2], against, "--dlperf-tolerance=20%")
    [outcome] = outcomes.values()
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "regressed"
    assert judgement["metrics"]["peak_memory"]["verdict"] == "regressed"
    assert launches(suite) == ["explain1", "explain2", "explain3", "explain4"]
    found = outcome["explanation"]
    assert found["sentence"] == (
        "of 95.37 MiB more at the peak of profiled steps: train.py(7): step: aten::cat +95.37 "
        "(1 to 2 allocations)"
    )
    assert found["sentence"] in judgement["reason"]
    assert (found["before_peak_bytes"], found["after_peak_bytes"]) == (10**8, 2 * 10**8)
    assert not any(part["named"] for part in found["parts"])
    result.stdout.fnmatch_lines(["*train.py(7): step: aten::cat*95 MiB*191 MiB*1 to 2*"])


@pytest.mark.slow
@pytest.mark.nightly  # the gate has its main way
def test_an_injected_slowdown_is_not_profiled(suite: Suite):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="0.8")
    _, outcomes = suite.outcomes(*AGAINST, "--dlperf-inject=50%")
    assert "--dlperf-inject" in outcomes[ID]["explanation"]["note"]
    assert launches(suite) == []


@pytest.mark.slow
@pytest.mark.nightly  # the gate has its main way
def test_against_stored_baselines_only_now_is_profiled_and_only_if_asked(suite: Suite):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="0.8")
    arguments = ("--cpus=2", "--dlperf-runs=3", "-k", "1n2c")
    suite.run(*arguments, "--update-baselines")
    suite.env(FAKE_STEP_S="0.02")
    _, outcomes = suite.outcomes(*arguments)
    assert (outcomes[ID]["judgement"]["verdict"], outcomes[ID]["explanation"]) == (
        "regressed",
        None,
    )
    _, outcomes = suite.outcomes(*arguments, "--dlperf-explain=regressed")
    found = outcomes[ID]["explanation"]
    assert outcomes[ID]["judgement"]["verdict"] == "regressed"
    assert (found["before_ms"], found["agrees"]) == (None, None)
    assert "no profile of before is there to compare with" in outcomes[ID]["judgement"]["reason"]
    assert launches(suite) == ["explain1", "explain2"]


@pytest.mark.nightly  # the gate has its main way
def test_a_profile_stored_with_the_baseline_explains_a_later_regression(suite: Suite):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="0.8")
    arguments = ("--cpus=2", "--dlperf-runs=3", "-k", "1n2c")
    suite.run(*arguments, "--update-baselines", "--dlperf-explain=always")
    (file,) = suite.path.glob(f"baselines/*/net/{ID}.profile.json")
    suite.env(FAKE_STEP_S="0.02", FAKE_PROFILE="0.4")
    _, outcomes = suite.outcomes(*arguments)
    found = outcomes[ID]["explanation"]
    assert outcomes[ID]["judgement"]["verdict"] == "regressed"
    assert found["agrees"] is True
    assert found["parts"][0]["part"] == "Python and launches"
    assert found["parts"][0]["named"] is True

    file.write_text("{}")
    _, outcomes = suite.outcomes(*arguments)
    assert outcomes[ID]["judgement"]["verdict"] == "regressed"
    assert f"{ID}.profile.json: not a profile" in outcomes[ID]["explanation"]["note"]

    suite.run(*arguments, "--update-baselines", "--dlperf-reason=meant", "--dlperf-explain=never")
    assert not file.exists(), "it is of the level before"


LOGGED = """
import time
for i in range(60):
    time.sleep(0.05)
    print(f"it {i} speed 20 it/s", flush=True)
"""


@pytest.mark.nightly  # the gate has host stacks in tests/unit/worker and tests/unit/judge
@pytest.mark.slow
@pytest.mark.parametrize("has_py_spy", [True, False])
def test_a_program_that_is_read_by_its_log_has_host_stacks_alone(suite: Suite, has_py_spy: bool):
    log = r"it (?P<step>\d+) speed (?P<rate>\S+) it/s"
    (suite.path / "test_net.py").write_text(
        textwrap.dedent(f"""
        import pytest
        from pytest_dlperf import pattern
        @pytest.mark.dlperf(command=["python", "train.py"], framework=None, layout="1n1c",
                            log_format=pattern(r"{log}", scope="device"), speedup=None,
                            batch_size_per_device=1, iterations=50, warmup=5, runs=1, max_runs=1)
        def test_net(dlperf):
            dlperf.run()
        """),
        encoding="utf-8",
    )
    (suite.path / "train.py").write_text(LOGGED, encoding="utf-8")
    programs = suite.path / "programs"
    programs.mkdir()
    if has_py_spy:
        write_py_spy(programs)
    suite.env(PATH=f"{programs}:/usr/bin:/bin", FAKE_SAMPLES="90")
    _, outcomes = suite.outcomes(
        "--cpus=1",
        "--dlperf-against=FAKE_SAMPLES=10",
        "--dlperf-explain=always",
    )
    [outcome] = outcomes.values()
    explanation = outcome["explanation"]
    assert explanation["parts"] == []
    if has_py_spy:
        assert explanation["note"] == ""
        assert (
            "host stacks, sampled by py-spy: <module> (b/train.py:9) +" in explanation["sentence"]
        )
        [stack] = explanation["stacks"]
        assert stack["after_ms"] > stack["before_ms"]
    else:
        assert "pip install py-spy" in explanation["note"]
        assert "pytest_dlperf.mark.step" in explanation["note"]
