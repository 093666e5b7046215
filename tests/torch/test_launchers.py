"""Launchers of other packages, for real: one small training under each that is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """Two ranks under accelerate; and a program whose command starts too few."""
    few = ["torchrun", "--standalone", "--nproc-per-node=1", "x.py"]
    tests = {
        "accelerate": two_ranks_under("accelerate"),
        "few": {"command": few, "launcher": None, "framework": "torch", "layout": "1n2c",
                "speedup": None},
    }  # fmt: skip
    return run_together(tmp_path_factory.mktemp("launched"), tests, workloads=HERE)


def two_ranks_under(launcher: str) -> dict[str, object]:
    if importlib.util.find_spec(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    return {"launcher": launcher, "layout": "1n2c", "speedup": None}


def check_they_train_together(session: OneSession, launcher: str) -> None:
    measured = session[launcher].measurement
    assert measured["conditions"]["launcher"] == launcher
    [run] = measured["runs"]
    assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
    digests = set()
    for path in sorted(Path(run["folder"]).glob("rank*.jsonl")):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        digests |= {one["value"]["digest"] for one in records if one["record"] == "checksum"}
    assert len(digests) == 1, "gradients are averaged over both"
    session[launcher].assert_nothing_left()


def test_two_ranks_under_accelerate(launched: OneSession):
    check_they_train_together(launched, "accelerate")


def test_a_command_that_starts_too_few_ranks_is_not_started(launched: OneSession):
    launched["few"].assert_error("the command starts 1 ranks a node (--nproc-per-node), and 1n2c")


@pytest.mark.nightly  # its wheel is built when it is installed; the gate has accelerate
def test_two_ranks_under_deepspeed(tmp_path: Path):
    tests = {"deepspeed": two_ranks_under("deepspeed")}
    check_they_train_together(run_together(tmp_path, tests, workloads=HERE), "deepspeed")
