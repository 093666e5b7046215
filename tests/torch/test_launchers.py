"""Launchers of other packages, for real: one small training under each that is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = [
    pytest.mark.torch,
    pytest.mark.nightly,  # deepspeed is in no environment of the gate
]
LAUNCHERS = ("accelerate", "deepspeed")


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """Two ranks under each launcher; and a program whose command starts too few."""
    there = [name for name in LAUNCHERS if importlib.util.find_spec(name)]
    if not there:
        pytest.skip("neither accelerate nor deepspeed is installed")
    tests = {name: {"launcher": name, "layout": "1n2c", "speedup": None} for name in there}
    few = ["torchrun", "--standalone", "--nproc-per-node=1", "x.py"]
    tests["few"] = {"command": few, "launcher": None, "framework": "torch", "layout": "1n2c",
                    "speedup": None}  # fmt: skip
    return run_together(tmp_path_factory.mktemp("launched"), tests, workloads=HERE)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_two_ranks_train_together(launched: OneSession, name: str):
    if name not in launched.tests:
        pytest.skip(f"{name} is not installed")
    measured = launched[name].measurement
    assert measured["conditions"]["launcher"] == name
    [run] = measured["runs"]
    assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
    digests = set()
    for path in sorted(Path(run["folder"]).glob("rank*.jsonl")):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        digests |= {one["value"]["digest"] for one in records if one["record"] == "checksum"}
    assert len(digests) == 1, "gradients are averaged over both"
    launched[name].assert_nothing_left()


def test_a_command_that_starts_too_few_ranks_is_not_started(launched: OneSession):
    launched["few"].assert_error("the command starts 1 ranks a node (--nproc-per-node), and 1n2c")
