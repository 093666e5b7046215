"""Profiles of a PyTorch program that marks its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.marked_program import program, settings
from tests.helpers.simulated_gpu import records

pytestmark = pytest.mark.torch

#: A net that is wrapped, and in whose steps one product has no module.
TEXT = """
import sys
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
model = torch.nn.DataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(int(os.environ["ITERATIONS"])):
    with step() as s:
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).square().mean()
        torch.mm(torch.ones(4, 4), torch.ones(4, 4))
        loss.backward()
        optimizer.step()
        s.loss(loss)
"""


def last_profile(folder: Path, iterations: int) -> dict[str, Any]:
    """Return the last profile of a program with a window of 12."""
    (folder / "bin").mkdir()
    mark = settings(folder)._replace(profiled_steps=5, sampled_steps=3).to_json()
    environment = {"ITERATIONS": str(iterations), "PATH": str(folder / "bin")}
    program(folder, TEXT, DLPERF_MARK=mark, **environment)
    last: dict[str, Any] = records(folder)["profile"][-1]
    return last


def test_operators_have_the_paths_of_the_modules_that_the_program_has(tmp_path: Path):
    profile = last_profile(tmp_path, 24)
    assert "note" not in profile
    assert len(profile["windows"]) == 3, "of five, without the shortest and the longest"
    calls = {(row["path"], row["name"]): row["calls"] for row in profile["operators"]}
    assert calls["", "aten::mm"] == 1
    assert calls["0", "aten::addmm"] == 1
    assert calls["0 (backward)", "aten::mm"] == 1
    assert (tmp_path / profile["trace"]).exists()
    assert profile["memory"]["allocations"]


@pytest.mark.nightly  # the gate has one that goes on
def test_a_program_that_ends_while_it_is_profiled_ends_well(tmp_path: Path):
    assert "it must train 24 iterations" in last_profile(tmp_path, 16)["problem"]


@pytest.mark.nightly  # the gate has one that goes on
def test_a_program_that_ends_after_its_profile_has_no_allocations(tmp_path: Path):
    profile = last_profile(tmp_path, 18)
    assert len(profile["windows"]) == 3
    assert "memory" not in profile
    assert "it must train 24 iterations" in profile["note"]
