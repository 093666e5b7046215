"""What a rank looks at in its first iterations, with a PyTorch that can and one that cannot."""

from __future__ import annotations

import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")


class OnGpu(torch.Tensor):
    """A tensor of the host that says it is a GPU's."""

    device = torch.device("cuda", 0)


def test_a_build_without_nccl_is_described_without_it(monkeypatch: pytest.MonkeyPatch):
    """As Jetson's: the question itself raises. The device is simulated."""
    from pytest_dlperf.worker.frameworks.torch.framework import Torch

    def absent() -> None:
        raise RuntimeError("PyTorch is not compiled with NCCL support")

    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    monkeypatch.setattr(torch.cuda.nccl, "version", absent)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Orin")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: None)
    rank = Torch.__new__(Torch)
    rank._device, rank._tf32_defaults = torch.device("cuda", 0), None
    facts = rank.facts()
    assert (facts["nccl"], facts["device_name"]) == (None, "Orin")


def test_losses_in_one_buffer_are_kept_as_they_were():
    """As a captured step returns them: the same tensor each time, which it overwrites."""
    from pytest_dlperf.worker.frameworks.torch.framework import Torch

    rank, buffer = Torch.__new__(Torch), torch.zeros(()).as_subclass(OnGpu)
    kept = []
    for value in (3.0, 2.0, 1.0):
        buffer.fill_(value)
        kept.append(rank.keep_loss(buffer))
    assert [rank.loss_value(loss) for loss in kept] == [3.0, 2.0, 1.0]


class Capture:
    """``torch.cuda.graph``, which captures nothing here."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def captured_in_build(watched) -> None:
    """Warm up and capture, then two iterations in which nothing can be seen."""
    model = torch.nn.Linear(4, 2)
    model(torch.ones(1, 4))
    with torch.cuda.graph():
        model(torch.ones(3, 4, dtype=torch.bfloat16).float()).sum().backward()
    for opened in (watched.first, watched.second):
        with opened():
            pass


@pytest.mark.parametrize("compiles", [False, True])
def test_a_captured_step_is_looked_at_when_it_is_captured(
    monkeypatch: pytest.MonkeyPatch, compiles: bool
):
    from pytest_dlperf.worker.frameworks.torch import watch

    monkeypatch.setattr(watch, "compiles", lambda: compiles)
    monkeypatch.setattr(torch.cuda, "graph", Capture)
    enter, leave = Capture.__enter__, Capture.__exit__
    watched = watch.Watch()
    watched.captures()
    captured_in_build(watched)
    assert (Capture.__enter__, Capture.__exit__) == (enter, leave)
    if compiles:
        assert watched.shapes.shapes is None
        assert watched.arithmetic.flops == {}
        assert "CUDA graph of a compiled function" in watched.unwatched
    else:
        assert watched.shapes.shapes == [[3, 4]]
        # A product forward, and that of its weights backward; the warm-up does not count.
        assert watched.arithmetic.flops == {"float32": 2 * 2 * 3 * 4 * 2}
        assert watched.unwatched == ""


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


def test_a_frozen_matrix_has_no_whole_backward_pass(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    model[1].requires_grad_(False)
    assert watch.trains_all([model])
    model[0].weight.requires_grad_(False)
    assert not watch.trains_all([model])


class InFloat8(torch.Tensor):
    """A float32 tensor for who sees it; its product is one of float8, as torchao's is."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=torch.float32)

    def __init__(self, held) -> None:
        self.held = held.to(torch.float8_e4m3fn)

    def __tensor_flatten__(self):
        return ["held"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        assert func is torch.ops.aten.mm.default
        left, right = (one.held for one in args)
        by_columns, scale = right.t().contiguous().t(), torch.ones(())
        return torch._scaled_mm(left, by_columns, scale, scale, out_dtype=torch.bfloat16)


def test_what_a_tensor_does_with_those_that_it_wraps_is_counted():
    from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype

    left, right = InFloat8(torch.ones(16, 32)), InFloat8(torch.ones(32, 48))
    with FlopsByDtype() as counted:
        torch.mm(left, right)
    assert counted.flops == {"float8": 2 * 16 * 32 * 48}


@pytest.mark.parametrize(
    ("convolution", "is_groupwise"),
    [
        (torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), False),
        (torch.nn.Conv1d(8, 16, 3, dilation=2), False),
        (torch.nn.ConvTranspose2d(8, 4, 3, stride=2), False),
        (torch.nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8), True),
        (torch.nn.Conv2d(8, 16, 3, groups=4), True),
        (torch.nn.ConvTranspose2d(8, 16, 3, stride=2, groups=4), True),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_convolution_goes_backward_by_twice_its_forward(
    convolution: torch.nn.Module, is_groupwise: bool, is_first: bool
):
    from torch.utils.flop_counter import FlopCounterMode

    from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype

    inputs = torch.randn(3, 8, *[12] * (convolution.weight.dim() - 2), requires_grad=not is_first)
    with FlopsByDtype() as counted:
        convolution(inputs).sum().backward()
    forward = counted.forward["float32"]
    assert counted.flops["float32"] == forward * (2 if is_first else 3)
    with FlopCounterMode(display=False) as theirs:
        convolution(inputs).sum().backward()
    if not is_groupwise:
        assert theirs.get_total_flops() == counted.flops["float32"]


@pytest.mark.parametrize("waits", [True, False])
def test_whether_pytorch_sees_the_host_wait_within_a_step(
    waits: bool, monkeypatch: pytest.MonkeyPatch
):
    """With a stand-in for the mode of ``torch.cuda``, which a build without CUDA cannot set."""
    from pytest_dlperf.worker.frameworks.torch.framework import Torch

    modes: list[object] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def step() -> torch.Tensor:
        if waits:
            warnings.warn("called a synchronizing CUDA operation (Triggered in ...)", stacklevel=1)
        return torch.ones(())

    framework = SimpleNamespace(keep_loss=lambda loss: loss)
    assert Torch.waits_within(framework, step) is waits
    assert modes == ["warn", 0]
