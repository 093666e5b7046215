"""Ranks that coverage, a debug mode or another allocator slows are known by their variables."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

PROGRAM = """
import time
from pytest_dlperf.mark import step

for done in range(20):
    with step() as one:
        time.sleep(0.002)
        one.loss(1 / (done + 1))
"""
TEST = """
import pytest

@pytest.mark.dlperf(framework=None, command=["python", "w.py"], layout="1n1c", suite="own", runs=1,
                    batch_size_per_device=8, iterations=20, warmup=5)
def test_own(dlperf):
    dlperf.run()
"""


@pytest.mark.slow
@pytest.mark.nightly  # the gate has its main way
def test_the_verdict_names_what_the_stored_session_did_not_have(suite: Suite):
    suite.write(TEST)
    suite.write_file("w.py", PROGRAM)
    suite.environment["PYTHONTRACEMALLOC"] = "1"
    suite.outcomes("--update-baselines", "--dlperf-reason=new")
    [baseline] = suite.baselines().values()
    assert baseline["sessions"][0]["software"]["PYTHONTRACEMALLOC"] == "1"
    suite.environment = {"PYTHONDEVMODE": "1", "NCCL_NET_TOKEN": "x-12345678"}
    _, outcomes = suite.outcomes()
    [outcome] = outcomes.values()
    assert outcome["environment"]["software"]["NCCL_NET_TOKEN"] == "…"
    assert outcome["judgement"]["reason"].splitlines()[-1] == (
        "variables that slow or instrument the ranks are not those of the stored session: "
        "PYTHONDEVMODE=1 (was not set), PYTHONTRACEMALLOC not set (was 1)"
    )
