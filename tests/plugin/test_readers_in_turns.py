"""Pairs of a marked program whose reader waits for a clock: that goes on for a frozen arm."""

from __future__ import annotations

import pytest

from tests.helpers.fake_repository import WIDE, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # whole sessions; .ci/run has them

TRAIN = """
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from latency import LATENCY_S

from pytest_dlperf import mark

AT_ONCE = 16
with ThreadPoolExecutor(AT_ONCE) as pool:
    answers = deque(pool.submit(time.sleep, LATENCY_S) for _ in range(AT_ONCE))
    for number in range(int(sys.argv[1])):
        answers.popleft().result()
        answers.append(pool.submit(time.sleep, LATENCY_S))
        with mark.step() as step:
            time.sleep(0.01)
            step.loss(10.0 - number * 1e-3)
"""
TEST = """
import pytest


@pytest.mark.dlperf(
    command=["python", "train.py", "{iterations}"], framework=None, layout="1n1c",
    batch_size_per_device=8, warmup=40, iterations=100,
)
def test_net(dlperf):
    dlperf.run()
"""


@pytest.mark.nightly  # the gate has its main way
def test_a_slower_reader_is_found_by_launches_that_alternate(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    suite = Suite(pytester, monkeypatch)
    git(suite, "init", "-q", "-b", "main")
    (suite.path / ".git/info/exclude").write_text("runtime\nr.json\n")
    suite.write(TEST)
    suite.write_file("train.py", TRAIN)
    suite.write_file("latency.py", "LATENCY_S = 0.4\n")
    git(suite, "add", "-A", ".")
    git(suite, "commit", "-q", "-m", "main")
    suite.write_file("latency.py", "LATENCY_S = 0.8\n")
    _, outcomes = suite.outcomes(
        "--dlperf-against=main", WIDE, "--dlperf-max-runs=3", "--dlperf-explain=never"
    )
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.5, abs=0.15)
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert "its reader is served while it is frozen: steps waited" in note["message"]
