"""GPUs that a foreign process uses are waited for, refused or ignored; on a made-up driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.helpers.fake_suite import Suite
from tests.plugin.test_watched_gpus import GPU, ID, on_a_gpu

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


#: A process that is on every machine, and of no session.
FOREIGN = 1
BUSY = [[FOREIGN, 3 * 2**30]]


def reason(suite: Suite, *arguments: str) -> tuple[str, str]:
    _, outcomes = suite.outcomes("--dlperf-runs=1", *arguments)
    judgement = outcomes[ID]["judgement"]
    return judgement["verdict"], judgement["reason"]


def test_refused_at_once_with_the_process(suite: Suite):
    on_a_gpu(suite, processes=BUSY)
    verdict, words = reason(suite, "--dlperf-busy-gpus=refuse")
    assert verdict == "error"
    assert f"not measured, because of pid {FOREIGN} " in words
    assert "on GPU 0, 3.0 GiB" in words
    assert "--dlperf-busy-gpus=ignore" in words
    assert not list(suite.path.glob(".dlperf/*/*/run1"))


def test_ignored(suite: Suite):
    on_a_gpu(suite, processes=BUSY)
    assert reason(suite, "--dlperf-busy-gpus=ignore")[0] == "no-baseline"
    # Sharing the host is to be beside others.
    assert reason(suite, "--dlperf-share-host", "--dlperf-busy-gpus=refuse")[0] == "no-baseline"


def test_waited_for_until_it_ends(suite: Suite):
    on_a_gpu(suite, processes=BUSY)
    log = suite.path / "session.log"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dlperf-runs=1"]
    with log.open("wb") as file:
        session = subprocess.Popen(
            [*command, "--dlperf-json=r.json"], cwd=suite.path, stdout=file, stderr=file
        )
    end_s = time.monotonic() + 60
    while "waiting up to" not in log.read_text(encoding="utf-8"):
        assert session.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < end_s
        time.sleep(0.05)
    told = log.read_text(encoding="utf-8")
    assert f"{ID}: waiting up to 17" in told  # of 1800 s
    assert f"s for pid {FOREIGN} " in told
    free = suite.path / "free.json"
    free.write_text(json.dumps([GPU]))
    free.replace(suite.path / "nvml.json")
    assert session.wait(timeout=60) == 0, log.read_text(encoding="utf-8")
    [outcome] = json.loads((suite.path / "r.json").read_text())["outcomes"]
    assert outcome["judgement"]["verdict"] == "no-baseline"


@pytest.mark.nightly  # the gate waits until a GPU is free
def test_waited_for_in_vain_once_a_session(suite: Suite):
    on_a_gpu(suite, processes=BUSY)
    text = (suite.path / "test_net.py").read_text()
    suite.write(
        f"{text}\n{text.split('import pytest')[1].replace('=4', '=8').replace('_net', '_b')}"
    )
    _, outcomes = suite.outcomes("--dlperf-runs=1", "--dlperf-timeout=4")
    reasons = {key: value["judgement"]["reason"] for key, value in outcomes.items()}
    assert {value["judgement"]["verdict"] for value in outcomes.values()} == {"error"}
    assert "s, the timeout of a run, for pid" in reasons[ID]
    assert "a case before it has waited in vain for pid" in reasons["b-torch-fp32-bs8-1n1g"]


@pytest.mark.parametrize("asked", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_without_nvidia_ml_py_nothing_is_pretended(suite: Suite, asked: bool):
    on_a_gpu(suite, processes=BUSY)
    (suite.path / "pynvml.py").write_text("raise ModuleNotFoundError('no pynvml here')\n")
    suite.env(PYTHONPATH=f"{suite.path}{os.pathsep}{os.environ['PYTHONPATH']}")
    result, outcomes = suite.outcomes(
        "--dlperf-runs=1", *(["--dlperf-busy-gpus=wait"] if asked else [])
    )
    judgement = outcomes[ID]["judgement"]
    words = "cannot be seen: nvidia-ml-py is not installed"
    if asked:
        assert judgement["verdict"] == "error"
        assert words in judgement["reason"]
    else:
        assert judgement["verdict"] == "no-baseline"
        result.stdout.fnmatch_lines([f"{ID}: whether others use its GPUs {words}*"])
