"""Real training behind a prefix: what precedes the launcher, and what a probe finds."""

from __future__ import annotations

import json
import os
import sys
import venv

import pytest
import torch

from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch
PYTHON = f"--dlperf-python={sys.executable}"


def test_ranks_start_behind_the_prefix(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLPERF_TEST_FOO", "outside")
    monkeypatch.setenv("DLPERF_IMAGE", "registry/training:1")
    folder.write(workload="placed:build", max_runs=1, speedup=None)
    result, [outcome] = folder.run(
        "--dlperf-prefix=env -u DLPERF_TEST_FOO nice -n 5", PYTHON, "-v",
        "-p", "tests.helpers.no_repeats",
    )  # fmt: skip
    assert outcome["measurement"] is not None, result.stdout.str()
    places = sorted(folder.path.glob(".dlperf/*/net-torch-fp32-bs8-1n2c/run1/place*.json"))
    assert len(places) == 2
    lower = min(19, os.nice(0) + 5)
    for path in places:
        said = json.loads(path.read_text(encoding="utf-8"))
        assert (said["nice"], said["FOO"], said["python"]) == (lower, None, sys.executable)
        assert said["package"].startswith(f"{folder.path}/.dlperf/")
    software = outcome["environment"]["software"]
    assert software["prefix"] == "env -u DLPERF_TEST_FOO nice -n 5"
    assert software["torch"] == torch.__version__
    assert software["image"] == "registry/training:1"
    assert software["os of the ranks"]
    assert "prefix" not in outcome["measurement"]["conditions"]
    assert folder.ours() == []


def test_an_interpreter_without_the_framework_is_not_run(folder: Folder):
    venv.create(folder.path / "bare", with_pip=False, symlinks=True)
    folder.write(layout="1n1c")
    bare = f"--dlperf-python={folder.path}/bare/bin/python"
    _, [outcome] = folder.run("--dlperf-prefix=nice -n 1", bare)
    assert outcome["judgement"]["verdict"] == "not-run", outcome["judgement"]
    assert "torch is not installed behind the prefix 'nice -n 1'" in outcome["judgement"]["reason"]

    result, [outcome] = folder.run(bare, "--dlperf-framework=torch")
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert "torch is not installed with" in outcome["judgement"]["reason"]
