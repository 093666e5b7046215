from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from itertools import pairwise

import pytest

from tests.helpers.fake_suite import TESTS, Suite

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def junit(suite: Suite) -> dict[str, ElementTree.Element]:
    root = ElementTree.parse(suite.path / "junit.xml").getroot()
    return {case.get("name", ""): case for case in root.iter("testcase")}


@pytest.mark.slow
def test_without_a_baseline_nothing_is_green(suite: Suite):
    result = suite.run("--dlperf-runs=2", "--junitxml=junit.xml")
    assert result.ret == 0
    result.assert_outcomes(passed=0)
    result.stdout.fnmatch_lines(["*2 cases: 2 no-baseline; 2 NOT JUDGED*", "*2 no-baseline in*"])
    skipped = junit(suite)[f"test_net[{ONE}]"].find("skipped")
    assert skipped is not None
    assert "--update-baselines" in skipped.get("message", "")
    assert suite.run("--dlperf-runs=2", "--dlperf-strict").ret == 1


def test_the_gate(suite: Suite):
    """Store, judge the same again, then find what is slower: by its own test id, in JUnit too."""
    result = suite.run("--update-baselines")
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    stored = suite.baselines()
    assert set(stored) == {ONE, TWO}
    assert len(stored[TWO]["sessions"][0]["runs"]) == 5
    assert stored[TWO]["sessions"][0]["speedup"] == pytest.approx(2, rel=0.05)

    # One stored session of CPUs certifies nothing within 5 %
    room = "--dlperf-tolerance=20%"
    assert set(suite.verdicts(room, "--dlperf-strict").values()) == {"passed"}

    result, outcomes = suite.outcomes(
        "--dlperf-inject=*-1n2c:40%", "--junitxml=junit.xml", "--dlperf-strict", room
    )
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"*FAILED test_net.py::test_net?{TWO}?*"])
    result.stdout.fnmatch_lines(
        [f"*reproduce: pytest 'test_net.py::test_net?{TWO}?' '--dlperf-inject=?-1n2c:40%' --dlpe*"]
    )
    judgement = outcomes[TWO]["judgement"]
    assert judgement["verdict"] == "regressed"
    assert judgement["change"] == pytest.approx(1 / 1.4 - 1, abs=0.02)
    assert judgement["interval"][0] < judgement["change"] < judgement["interval"][1]
    assert outcomes[TWO]["measurement"]["inject"] == 0.4
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    case = junit(suite)[f"test_net[{TWO}]"]
    assert case.find("failure") is not None
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["dlperf_verdict"] == "regressed"
    assert float(properties["dlperf_throughput"] or 0) == pytest.approx(
        outcomes[TWO]["measurement"]["throughput"]
    )


@pytest.mark.slow
def test_outcomes_cross_xdist_and_parents_are_measured_once(suite: Suite):
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log, FAKE_WALL_S=0.2)
    result, outcomes = suite.outcomes("-n2", "--dlperf-runs=2", "--junitxml=junit.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*2 NOT JUDGED*", "*2 no-baseline in*"])
    assert outcomes[TWO]["measurement"]["speedup"] is not None
    assert junit(suite)[f"test_net[{ONE}]"].find("skipped") is not None
    launches = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    assert sorted(case_id for case_id, _ in launches) == [ONE, ONE, TWO, TWO]
    starts = sorted(float(at) for _, at in launches)
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(starts))


@pytest.mark.slow
def test_the_parent_is_measured_when_it_was_not_selected(suite: Suite):
    _, outcomes = suite.outcomes("--cpus=2", "--dlperf-runs=2")
    assert set(outcomes) == {TWO}
    measurement = outcomes[TWO]["measurement"]
    assert len(measurement["parent_throughputs"]) == 2
    assert measurement["speedup"] == pytest.approx(2, rel=0.05)
    assert measurement["efficiency"] == pytest.approx(1, rel=0.05)


@pytest.mark.nightly  # the gate has its main way
def test_unselected_baselines_are_not_touched(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c")
    assert set(suite.baselines()) == {ONE}
    suite.run("--update-baselines", "-k", "1n2c")
    assert len(suite.baselines()[ONE]["sessions"]) == 1


@pytest.mark.slow
def test_a_level_that_changed_needs_a_reason(suite: Suite):
    update = ("--update-baselines", "-k", "1n1c", "--dlperf-runs=2")
    suite.run(*update)
    suite.env(FAKE_STEP_S=0.02)
    result = suite.run(*update)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*--dlperf-reason*"])
    assert len(suite.baselines()[ONE]["history"]) == 0
    result = suite.run(*update, "--dlperf-reason=new driver")
    assert result.ret == 0
    assert suite.baselines()[ONE]["history"][0]["reason"] == "new driver"


@pytest.mark.parametrize("option", ["--dlperf-inject=5%", "--dlperf-warmup=40"])
@pytest.mark.nightly  # the gate has its main way
def test_updates_that_are_always_refused(suite: Suite, option: str):
    result = suite.run("--update-baselines", "-k", "1n1c", "--dlperf-reason=because", option)
    assert result.ret == 1
    assert suite.baselines() == {}


def test_an_error_is_a_failure_that_shows_the_log(suite: Suite):
    suite.env(FAKE_FAIL="*1n2c*")
    result, outcomes = suite.outcomes("--dlperf-runs=1", "--junitxml=junit.xml")
    assert result.ret == 1
    assert outcomes[TWO]["judgement"]["verdict"] == "error"
    assert outcomes[TWO]["measurement"] is None
    result.stdout.fnmatch_lines(
        ["*rank 0: ValueError: boom*", "*output.log*", "*the last words of a launcher*"]
    )
    assert junit(suite)[f"test_net[{TWO}]"].find("failure") is not None


@pytest.mark.nightly  # the gate has its main way
def test_a_machine_that_changed_is_not_a_regression(suite: Suite):
    three = ("-k", "1n1c", "--dlperf-runs=3")
    suite.run(*three, "--update-baselines")
    suite.env(FAKE_STEP_S=0.02, FAKE_CANARY=0.5)
    assert suite.verdicts(*three) == {ONE: "incomparable"}
    suite.env(FAKE_CANARY=1)
    assert suite.verdicts(*three) == {ONE: "regressed"}


@pytest.mark.slow
def test_disturbed_runs_are_repeated_and_never_averaged(suite: Suite):
    suite.env(FAKE_OTHERS=0.5)
    _, outcomes = suite.outcomes("--dlperf-runs=2", "-k", "1n1c")
    measurement = outcomes[ONE]["measurement"]
    assert len(measurement["runs"]) + len(measurement["disturbed_runs"]) == 3
    assert [p["code"] for p in measurement["problems"]] == ["disturbed"]


@pytest.mark.slow
def test_other_conditions_are_incomparable_and_named(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c", "--dlperf-runs=2")
    _, outcomes = suite.outcomes("-k", "1n1c", "--dlperf-runs=2", "--dlperf-iterations=100")
    judgement = outcomes[ONE]["judgement"]
    assert judgement["verdict"] == "incomparable"
    assert "window" in judgement["reason"]


@pytest.mark.slow
def test_memory_that_grew_fails(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c", "--dlperf-runs=2")
    suite.env(FAKE_MEMORY=150_000_000)
    _, outcomes = suite.outcomes("-k", "1n1c", "--dlperf-runs=2")
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert outcomes[ONE]["judgement"]["metrics"]["peak_memory"]["change"] == pytest.approx(0.5)


@pytest.mark.nightly
def test_observe_mode_fails_for_errors_alone(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c")
    suite.env(FAKE_STEP_S=0.03)
    result = suite.run("-k", "1n1c", "--dlperf-mode=observe")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*mode observe*", "*1 case: 1 regressed*"])
    suite.env(FAKE_FAIL="*")
    assert suite.run("-k", "1n1c", "--dlperf-mode=observe").ret == 1


MIXED = """
import pytest

marks = dict(layout="1n1c", launcher="torchrun", batch_size_per_device=4, runs=2, max_runs=3)

@pytest.mark.dlperf("w:build", suite="new", **marks)
def test_new(dlperf):
    dlperf.run()

@pytest.mark.dlperf("w:build", suite="noisy", **marks)
def test_noisy(dlperf):
    dlperf.run()

@pytest.mark.dlperf("w:build", suite="absent", framework="paddle", **marks)
def test_absent(dlperf):
    dlperf.run()

@pytest.mark.dlperf("w:build", suite="kernel", precision="amp", **marks)
def test_kernel(dlperf):
    dlperf.run()
"""


@pytest.mark.slow
def test_what_cannot_be_judged_has_its_own_category_and_fails_when_strict(suite: Suite):
    suite.write(MIXED)
    suite.env(FAKE_NOISY="*noisy*")
    assert suite.run("-k", "noisy", "--update-baselines").ret == 0
    suite.env(FAKE_SEED=1)
    careful = "--dlperf-family=100000"
    result = suite.run("--junitxml=junit.xml", careful)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["4 cases: 2 not-run, 1 no-baseline, 1 inconclusive; 4 NOT JUDGED"]
    )
    assert " passed" not in result.stdout.lines[-1]
    skipped = {name: case.find("skipped") for name, case in junit(suite).items()}
    sentences = [
        ("new", "no-baseline (nothing-stored)", f"looked in {suite.path / 'baselines'}"),
        ("noisy", "inconclusive (undecided)", "no alarm yet"),
        ("absent", "not-run", "paddle is not installed"),
        ("kernel", "not-run", "precision amp has no CPU kernels"),
    ]
    for (name, title, sentence), (found, element) in zip(sentences, skipped.items(), strict=True):
        assert found.startswith(f"test_{name}[")
        assert element is not None
        assert f"{title}: " in element.get("message", "")
        assert sentence in element.get("message", "")
    strict = suite.run("--dlperf-strict", "--junitxml=junit.xml", careful)
    assert strict.ret == 1
    strict.assert_outcomes(failed=4)
    assert all(case.find("failure") is not None for case in junit(suite).values())


@pytest.mark.nightly
def test_results_fit_their_schema(suite: Suite):
    import json
    from pathlib import Path

    import jsonschema

    import pytest_dlperf.report

    suite.env(FAKE_FAIL="*1n1c*")
    suite.outcomes("--dlperf-runs=2", "-k", "1n1c")
    failed = json.loads((suite.path / "r.json").read_text(encoding="utf-8"))
    suite.env(FAKE_FAIL="")
    suite.run("--update-baselines")
    suite.outcomes()
    judged = json.loads((suite.path / "r.json").read_text(encoding="utf-8"))
    schema = json.loads(
        (Path(pytest_dlperf.report.__file__).parent / "outcomes.schema.json").read_text()
    )
    for values in (failed, judged):
        jsonschema.validate(values, schema)
    judged["outcomes"][0]["judgement"]["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(judged, schema)


def test_the_version_is_one():
    import pytest_dlperf

    assert version("pytest-dlperf") == pytest_dlperf.__version__


@pytest.mark.slow
def test_without_a_speedup_no_parent_is_launched(suite: Suite):
    suite.env(FAKE_LOG=suite.path / "launches")
    text = TESTS.replace('"1n1c", "1n2c"', '"1n2c"')
    suite.write(text.replace("layout=", "speedup=None, layout="))
    _, outcomes = suite.outcomes("--dlperf-runs=2", "--update-baselines")
    assert outcomes[TWO]["case"]["speedup"] is None
    assert outcomes[TWO]["measurement"]["speedup"] is None
    launches = (suite.path / "launches").read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in launches] == [TWO, TWO]
    assert suite.baselines()[TWO]["sessions"][0]["speedup"] is None
    assert suite.verdicts("--dlperf-runs=2", "--dlperf-tolerance=20%") == {TWO: "passed"}
