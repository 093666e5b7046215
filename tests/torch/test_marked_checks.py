"""What a PyTorch program that asks for checks has looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from pytest_dlperf.core.wire import MarkSettings
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.torch import watch
from pytest_dlperf.worker.marked_checks import MarkedChecks
from pytest_dlperf.worker.marks import Marks

pytestmark = pytest.mark.torch


@pytest.fixture
def checks() -> MarkedChecks:
    return MarkedChecks("torch", [torch.ones(3)], fixed_batch=False)


def test_a_step_in_the_cases_dtype_is_looked_at(checks: MarkedChecks):
    checks.watch()
    torch.ones(4, 4) @ torch.ones(4, 4)
    checks.watched("fp32")
    record = checks.record()
    assert record["value"]["tensors"] == 1
    assert "unwatched" not in record


def test_a_step_in_another_dtype_is_refused(checks: MarkedChecks):
    checks.watch()
    torch.ones(4, 4) @ torch.ones(4, 4)
    with pytest.raises(WorkerFailure, match="the case names bf16, whose matrix work is in bfl"):
        checks.watched("bf16")


def test_what_was_not_looked_at_is_said(checks: MarkedChecks, monkeypatch: pytest.MonkeyPatch):
    assert "is not within the warm-up" in checks.record()["unwatched"]
    checks.watch()
    checks.watched("bf16")
    assert checks.record()["unwatched"] == "its second step had no matrix work"
    monkeypatch.setattr(watch, "compiles", lambda: True)
    checks.watch()
    checks.watched("bf16")
    assert checks.record()["unwatched"].startswith("its step is compiled")


@torch.library.custom_op("dlperf_tests::experts", mutates_args=())
def experts(x: torch.Tensor) -> torch.Tensor:
    """Multiply where nobody can look."""
    return x @ x


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_operator_that_nobody_can_count_is_named(checks: MarkedChecks, precision: str):
    """Most may have been done there, in the case's dtype."""
    checks.watch()
    torch.ones(4, 4) @ experts(torch.ones(4, 4).bfloat16()).float()
    checks.watched(precision)
    expected = "its second step ran dlperf_tests::experts (bfloat16), which nobody can count"
    assert checks.record()["unwatched"] == expected


def test_a_cuda_graph_in_a_step_is_named(checks: MarkedChecks, monkeypatch: pytest.MonkeyPatch):
    """With a stand-in for a graph, whose replay does nothing."""

    class Graph:
        def replay(self) -> None: ...

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    replay = Graph.replay
    checks.watch()
    torch.ones(4, 4) @ torch.ones(4, 4)
    Graph().replay()
    checks.watched("fp32")
    assert "ran torch.cuda.CUDAGraph.replay, which" in checks.record()["unwatched"]
    assert Graph.replay is replay


@pytest.mark.parametrize("how", ["abandoned", "raised"])
def test_a_step_that_does_not_end_is_looked_at_no_longer(tmp_path: Path, how: str):
    """The steps of the window were all looked at, which made them slower."""
    marks = Marks(
        MarkSettings(
            records=str(tmp_path), iterations=6, warmup=3, work=4, world_size=1,
            place=("RANK", "LOCAL_RANK", "WORLD_SIZE"), framework="torch",
        )
    )  # fmt: skip
    marks.checked([torch.ones(3)], fixed_batch=False)
    with marks.step():
        pass
    second = marks.step().__enter__()
    assert _get_current_dispatch_mode() is not None
    if how == "abandoned":
        second.abandon()
    else:
        second.__exit__(ValueError, ValueError("out of memory"), None)
    assert _get_current_dispatch_mode() is None
