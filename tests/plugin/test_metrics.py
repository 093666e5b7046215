"""A program's own metric, from its mark to the verdict and the reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

PROGRAM = """
import os
import time
from pytest_dlperf.mark import metric, phase, step

for index in range(15):
    with step(work=8) as mark:
        time.sleep(0.02)
        mark.loss(1.0 / (index + 1))
        metric("drops", int(os.environ["DROPS"]), better="lower")
        with phase("checkpoint"):
            pass
"""
TESTS = """
import pytest

@pytest.mark.dlperf(command=["python", "program.py"], framework=None, launcher=None,
                    layout="1n1c", batch_size_per_device=8, iterations=15, warmup=5,
                    runs=1, max_runs=1, timeout_s=60, tolerance="95%", metrics={"drops": "count"})
def test_net(dlperf):
    dlperf.run()
"""
CASE = "net-none-fp32-bs8-1n1c"


@pytest.mark.slow
def test_one_more_of_a_count_fails_from_one_run(suite: Suite):
    suite.env(PYTHONPATH=Path(__file__).parents[2], DROPS=3)
    suite.write(TESTS)
    suite.write_file("program.py", PROGRAM)
    # With a reason: steps may drift on a busy machine, and are stored all the same. No machine is
    # so busy that the tolerance of 95 % is exceeded, and the count alone decides.
    reason = "--dlperf-reason=its counts"
    suite.run("-p", "tests.helpers.no_repeats", "--update-baselines", reason)
    [session] = suite.baselines()[CASE]["sessions"]
    assert session["metrics"]["drops"] == {"runs": [3.0], "unit": "", "better": "lower"}
    assert session["metrics"]["checkpoint_seconds"]["unit"] == "s"
    suite.env(DROPS=4)
    files = ("--dlperf-md=r.md", "--dlperf-html=r.html", "--dlperf-benchmark-json=b.json")
    result, outcomes = suite.outcomes("-p", "tests.helpers.no_repeats", *files)
    judgement = outcomes[CASE]["judgement"]
    assert judgement["verdict"] == "regressed"
    assert judgement["metrics"]["drops"]["now"] == 4
    assert judgement["reason"].startswith("drops: 3 to 4; find what changed, or accept it")
    result.stdout.fnmatch_lines([f"*{CASE}*regressed*"])
    assert "drops 4 (+33.3 %, regressed)" in (suite.path / "r.md").read_text("utf-8")
    assert "drops" in (suite.path / "r.html").read_text("utf-8")
    [found] = json.loads((suite.path / "b.json").read_text("utf-8"))["benchmarks"]
    assert found["extra_info"]["metrics"]["drops"]["value"] == 4
