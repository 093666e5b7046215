"""What a rank looks at in its first iterations, with a PyTorch that can and one that cannot."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch):
    """Return the module, for a PyTorch before 2.6."""
    from pytest_dlperf.worker.frameworks.torch import watch as module

    monkeypatch.delattr(torch.compiler, "set_stance")
    return module


def two_iterations(watched) -> None:
    model = torch.nn.Linear(4, 2)
    for opened in (watched.first, watched.second):
        with opened():
            model(torch.ones(3, 4)).sum().backward()


def test_an_old_pytorch_that_compiles_is_not_watched(watch, monkeypatch: pytest.MonkeyPatch):
    """A dispatch mode there would leave the rest of the training uncompiled."""
    monkeypatch.setattr(watch, "compiles", lambda: True)
    two_iterations(watched := watch.Watch())
    assert watched.shapes.shapes is None
    assert watched.arithmetic.flops == {}
    assert "2.6" in watched.unwatched
    assert "upgrade" in watched.unwatched


def test_an_old_pytorch_that_compiles_nothing_is_watched(watch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch, "compiles", lambda: False)
    two_iterations(watched := watch.Watch())
    assert watched.shapes.shapes == [[3, 4]]
    assert set(watched.arithmetic.flops) == {"float32"}
    assert watched.unwatched == ""


def test_dynamo_alone_compiles_nothing():
    """PyTorch's optimizers import it, and keep functions from it."""
    program = (
        "import sys, torch; from pytest_dlperf.worker.frameworks.torch.watch import compiles;"
        "said = [compiles()]; model = torch.nn.Linear(2, 2);"
        "torch.optim.SGD(model.parameters(), lr=0.1).zero_grad(); import torch._dynamo;"
        "said.append(compiles()); torch.compile(model, backend='eager'); said.append(compiles());"
        "print(*said)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False True\n"
