"""``--dlperf-cost`` on real traces: a planted product and a planted wait are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.perf_project import PerfProject, perf_test

pytestmark = pytest.mark.torch

WORKLOAD = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        hidden = self.up(x)
        {in_block}
        return x + self.down(torch.relu(hidden))


def build(job):
    model = job.data_parallel(nn.Sequential(Block(), Block(), Block()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(job.batch_size_per_device, 64, device=job.device)

    def step():
        loss = model(x).square().mean()
        {in_step}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step
"""
#: What a change plants into a block, and into the step, by the suite of its case.
PLANTED = {
    "product": ("self.up(x)", "pass"),
    "wait": ("pass", "loss.item()"),
}
OPTIONS = ("--dlperf-cost", "--dlperf-history=off")


def write_workload(project: PerfProject, suite: str, in_block: str, in_step: str) -> None:
    text = WORKLOAD.format(in_block=in_block, in_step=in_step)
    project.write_file(f"w_{suite}.py", text)


def test_planted_work_is_found_with_its_module(tmp_path: Path):
    project = PerfProject(tmp_path)
    tests = [
        perf_test(f"w_{suite}:build", name=suite, layout="1n8g", batch_size_per_device=4)
        for suite in PLANTED
    ]
    project.write_tests(*tests)
    for suite in PLANTED:
        write_workload(project, suite, "pass", "pass")
    _, outcomes = project.measured(*OPTIONS, "--update-baselines")
    assert {outcome["update"] for outcome in outcomes} == {"created"}

    for suite, (in_block, in_step) in PLANTED.items():
        write_workload(project, suite, in_block, in_step)
    _, outcomes = project.measured(*OPTIONS)
    found = {outcome["case"]["suite"]: outcome["judgement"] for outcome in outcomes}
    assert {suite: judgement["code"] for suite, judgement in found.items()} == {
        "product": "costs-more:flops",
        "wait": "costs-more:host_waits",
    }
    assert found["product"]["reason"].startswith("*.up: 1 to 2 addmm a layer, ")
    assert found["wait"]["reason"].startswith("w_wait.py:")
    assert found["wait"]["codes"] == ["costs-more:host_waits"]
