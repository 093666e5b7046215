"""Programs that need no framework, for real, where none is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

PROGRAM = """
import os, sys
import numpy as np
from pytest_dlperf.mark import step

ranks = int(sys.argv[1])
for rank in range(1, ranks):
    if os.fork() == 0:
        os.environ["RANK"] = str(rank)
        break
else:
    os.environ["RANK"] = "0"
weights, x = np.zeros(64), np.random.default_rng(1).normal(size=(8, 64))
for _ in range(30):
    with step() as mark:
        error = x @ weights - 1
        weights -= 0.01 * (x.T @ error)
        mark.loss(float((error ** 2).mean()))
if os.environ["RANK"] == "0":
    for _ in range(1, ranks):
        os.wait()
else:
    os._exit(0)
"""
TESTS = """
import pytest

@pytest.mark.dlperf(command=["python", "program.py", "{world_size}"], framework=None,
                    layout=["1n1c", "1n2c"], batch_size_per_device=8, iterations=30, warmup=10,
                    speedup=None, runs=1, max_runs=1, timeout_s=60)
def test_net(dlperf):
    dlperf.run()
"""
ONE, TWO = "net-none-fp32-bs8-1n1c", "net-none-fp32-bs8-1n2c"


@pytest.fixture
def bare(suite: Suite) -> Suite:
    """A folder with such a program, in an environment without any framework."""
    # The suite has metadata of a torch that is not there.
    suite.env(PYTHONPATH=Path(__file__).parents[2])
    assert not any(map(importlib.util.find_spec, ("torch", "paddle", "tensorflow")))
    suite.write(TESTS)
    suite.write_file("program.py", PROGRAM)
    return suite


@pytest.mark.slow
def test_a_numpy_program_is_measured_where_no_framework_is(bare: Suite):
    result, outcomes = bare.outcomes("-p", "tests.helpers.no_repeats")
    assert result.ret == 0
    assert set(outcomes) == {ONE, TWO}
    for case_id, ranks in ((ONE, 1), (TWO, 2)):
        measurement = outcomes[case_id]["measurement"]
        assert measurement is not None, outcomes[case_id]["judgement"]["reason"]
        assert len(measurement["runs"][0]["ranks"]) == ranks
        assert measurement["runs"][0]["ranks"][0]["loss_first"] > 0
        assert "framework-unchecked" in [p["code"] for p in measurement["problems"]]
    result.stdout.fnmatch_lines([f"note: {ONE}: the case names no framework, so neither its*"])


@pytest.mark.nightly
def test_a_program_of_src_is_found_as_tests_find_it(bare: Suite):
    """By pytest's own ini key, which counts from the ini file."""
    package = bare.path / "src" / "alib"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "train.py").write_text(PROGRAM)
    bare.pytester.makeini("[pytest]\npythonpath = src\n")
    (bare.path / "perf").mkdir()
    (bare.path / "perf" / "test_net.py").write_text(
        TESTS.replace('"program.py"', '"-m", "alib.train"')
    )
    (bare.path / "test_net.py").unlink()
    shown = bare.run("--dlperf-dry-run", "-k", "1n1c", "perf")
    shown.stdout.re_match_lines([rf"  PYTHONPATH=\S+/perf:{bare.path}/src:{bare.path}\b.*"])
    _, outcomes = bare.outcomes("-p", "tests.helpers.no_repeats", "-k", "1n1c", "perf")
    assert outcomes[ONE]["measurement"] is not None, outcomes[ONE]["judgement"]["reason"]

    _, outcomes = bare.outcomes("-o", "pythonpath=", "-k", "1n1c", "perf")
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    words = "no module named 'alib' among the packages of its interpreter and "
    assert words in outcomes[ONE]["judgement"]["reason"]
    assert "pytest's ini pythonpath" in outcomes[ONE]["judgement"]["reason"]


@pytest.mark.slow
def test_its_framework_is_a_name_to_select_by(bare: Suite):
    listed = bare.run("--collect-only", "-q", "--dlperf-framework=none")
    assert sum("::test_net[" in line for line in listed.outlines) == 2
    other = bare.run("--collect-only", "-q", "--dlperf-framework=torch")
    assert sum("::test_net[" in line for line in other.outlines) == 0


@pytest.mark.slow
def test_with_a_framework_it_does_not_run(bare: Suite):
    bare.write(TESTS.replace("framework=None", 'framework="torch"'))
    assert set(bare.verdicts().values()) == {"not-run"}


@pytest.mark.slow
def test_its_steps_are_never_said_to_be_longer(bare: Suite):
    result, outcomes = bare.outcomes("--dlperf-inject=*-1n1c:30%", "-k", "1n1c")
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*--dlperf-inject cannot make the steps of a program (command=) longer*"]
    )
