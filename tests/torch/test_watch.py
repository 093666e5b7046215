"""What a rank looks at in its first iterations, with a PyTorch that can and one that cannot."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

F = torch.nn.functional


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


class Graph:
    """A ``CUDAGraph``, whose replay does nothing."""

    def replay(self) -> None: ...


class Capture:
    """``torch.cuda.graph``, which captures nothing here."""

    def __init__(self, cuda_graph: Graph) -> None:
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch):
    """Return a watch that looks at captures, whose device is simulated."""
    from pytest_dlperf.worker.frameworks.torch import watch

    monkeypatch.setattr(watch, "compiles", lambda: False)
    monkeypatch.setattr(torch.cuda, "graph", Capture)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    before = Capture.__enter__, Capture.__exit__, Graph.replay
    watched = watch.Watch()
    watched.captures()
    yield watched
    assert (Capture.__enter__, Capture.__exit__, Graph.replay) == before


def captured(rows: int) -> Graph:
    """Capture a step whose product forward has ``rows``, and that of its weights backward."""
    with torch.cuda.graph(graph := Graph()):
        torch.nn.Linear(4, 2)(torch.ones(rows, 4, dtype=torch.bfloat16).float()).sum().backward()
    return graph


def replayed(watched, *graphs: Graph) -> None:
    """Do two iterations in which nothing can be seen but replays."""
    for opened in (watched.first, watched.second):
        with opened():
            for graph in graphs:
                graph.replay()


#: Of a row of a captured step.
OPERATIONS = 2 * 2 * 4 * 2


def test_a_captured_step_is_looked_at_when_it_is_captured(capturing):
    torch.nn.Linear(4, 2)(torch.ones(1, 4))  # A warm-up does not count
    replayed(capturing, captured(3))
    assert capturing.shapes.shapes == [[3, 4]]
    assert capturing.arithmetic.flops == {"float32": 3 * OPERATIONS}
    assert capturing.unwatched == ""


def test_of_several_graphs_those_count_that_an_iteration_replays(capturing):
    """One for each of two lengths, or a capture that was for trial only."""
    _, long, _ = captured(3), captured(5), captured(7)
    replayed(capturing, long)
    assert capturing.arithmetic.flops == {"float32": 5 * OPERATIONS}


def test_a_graph_counts_as_often_as_it_is_replayed(capturing):
    once, twice = captured(3), captured(5)
    replayed(capturing, once, twice, twice)
    assert capturing.arithmetic.flops == {"float32": 13 * OPERATIONS}


def test_a_graph_that_nobody_saw_captured_is_named(capturing):
    replayed(capturing, captured(3), Graph())
    assert list(capturing.arithmetic.uncounted) == ["torch.cuda.CUDAGraph.replay"]


def test_a_graph_that_is_not_replayed_is_said(capturing):
    _ = captured(3)
    replayed(capturing)
    assert capturing.arithmetic.flops == {}
    assert "replayed none" in capturing.unwatched


def test_a_step_that_the_second_iteration_captures_counts_once(capturing):
    with capturing.first():
        pass
    with capturing.second():
        captured(3).replay()
    assert capturing.arithmetic.flops == {"float32": 3 * OPERATIONS}
    assert not capturing.arithmetic.uncounted


def test_a_captured_function_that_is_compiled_cannot_be_seen(
    capturing, monkeypatch: pytest.MonkeyPatch
):
    from pytest_dlperf.worker.frameworks.torch import watch

    monkeypatch.setattr(watch, "compiles", lambda: True)
    graph = captured(3)
    replayed(capturing, graph)
    assert capturing.shapes.shapes is None
    assert capturing.arithmetic.flops == {}
    assert "CUDA graph of a compiled function" in capturing.unwatched


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("is_alone", [True, False])
def test_what_a_step_raises_while_it_is_looked_at_is_not_the_trainings(
    monkeypatch: pytest.MonkeyPatch, is_alone: bool, compiled: bool
):
    from pytest_dlperf.worker.failure import WorkerFailure
    from pytest_dlperf.worker.frameworks.torch import watch

    monkeypatch.setattr(watch, "compiles", lambda: compiled)
    watched = watch.Watch(is_alone=is_alone)
    model = torch.nn.Linear(4, 2)
    with watched.first():
        model(torch.ones(3, 4))
    said = torch.OutOfMemoryError("CUDA out of memory")
    if is_alone:
        with watched.second():
            model(torch.ones(3, 4))
            raise said
        assert watched.arithmetic.flops == {}
        assert "OutOfMemoryError: CUDA out of memory; it was repeated" in watched.unwatched
        assert ("plain Python" in watched.unwatched) is compiled
        return
    expected = WorkerFailure if compiled else torch.OutOfMemoryError
    with pytest.raises(expected, match="CUDA out of memory"), watched.second():
        raise said


def test_what_the_second_iteration_compiles_stays_compiled():
    """Within other modes torch.compile leaves it to Python for good."""
    program = """
import torch
from pytest_dlperf.worker.frameworks.torch.watch import FlopsByDtype, Watch
graphs = []
def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward
watched = Watch()
with watched.first():
    torch.nn.Linear(4, 2)(torch.ones(3, 4))
with watched.second():
    function = torch.compile(lambda x: (x @ x).sin(), backend=backend)
    function(torch.ones(3, 3))
function(torch.ones(3, 3))
print(len(graphs), dict(watched.arithmetic.flops), "met its first" in watched.unwatched)
with FlopsByDtype() as counted:
    torch.cond(torch.tensor(True), lambda x: x @ x, lambda x: x + 1, (torch.ones(3, 3),))
print(dict(counted.uncounted))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # An operator that contains others has no formula, but for attention
    assert done.stdout == "1 {} True\n{'higher_order::cond': ['float32']}\n", done.stderr


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


@torch.library.custom_op("dlperf_tests::multiplied", mutates_args=())
def multiplied(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right


A, B = torch.ones(8, 4), torch.ones(4, 3)
GROUPS, ENDS = torch.ones(2, 16, 8).bfloat16(), torch.tensor([3, 6], dtype=torch.int32)


@pytest.mark.parametrize(
    ("operation", "counted", "uncounted"),
    [
        # Each as often as the groups' rows are, or columns, whatever the groups' sizes
        (lambda: F.grouped_mm(torch.ones(6, 16).bfloat16(), GROUPS, offs=ENDS),
         {"bfloat16": 2 * 6 * 16 * 8}, {}),
        (lambda: torch._int_mm(torch.ones(32, 16).char(), torch.ones(16, 8).char()),
         {"int8": 2 * 32 * 16 * 8}, {}),
        (lambda: torch.mv(A, torch.ones(4)), {"float32": 2 * 8 * 4}, {}),
        (lambda: torch.ones(8, 3).addmm_(A, B), {"float32": 2 * 8 * 4 * 3}, {}),
        (lambda: torch.inference_mode()(torch.nn.Linear(4, 3))(A), {"float32": 2 * 8 * 4 * 3}, {}),
        (lambda: F.interpolate(torch.ones(1, 1, 4, 4), size=8, mode="bilinear"), {}, {}),
        (lambda: torch.nn.LSTMCell(4, 2)(A), {"float32": 2 * 8 * (4 + 2) * 8}, {}),
        (lambda: multiplied(A.bfloat16(), B.bfloat16()), {},
         {"dlperf_tests::multiplied": ["bfloat16"]}),
        (lambda: torch.sparse.mm(torch.eye(8).to_sparse(), A), {},
         {"aten::_sparse_addmm": ["float32"]}),
        (lambda: F.bilinear(A, A, torch.ones(2, 4, 4)), {}, {"aten::_trilinear": ["float32"]}),
    ],
)  # fmt: skip
def test_what_multiplies_is_counted_or_named(
    operation: Callable[[], object], counted: dict[str, int], uncounted: dict[str, list[str]]
):
    from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype

    with FlopsByDtype() as watched, torch.no_grad():
        operation()
    assert watched.flops == counted
    assert watched.uncounted == uncounted


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("directions", [1, 2])
def test_a_recurrent_layer_counts_each_place_and_matrix(layers: int, directions: int):
    from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype

    lstm = torch.nn.LSTM(6, 5, num_layers=layers, bidirectional=directions == 2)
    with FlopsByDtype() as watched:
        lstm(torch.ones(7, 3, 6))[0].sum().backward()
    weights = sum(one.numel() for one in lstm.parameters() if one.dim() > 1)
    assert watched.forward == {"float32": 2 * 7 * 3 * weights}
    assert watched.flops == {"float32": 3 * 2 * 7 * 3 * weights}
    # On GPUs it is one operator, of all layers and directions
    from pytest_dlperf.worker.frameworks.torch import flops

    given = torch.ones(7, 3, 6), list(lstm.parameters())
    assert flops._FORMULAS["_cudnn_rnn"](*given, 4) == 2 * 7 * 3 * weights
    backward = flops._FORMULAS["_cudnn_rnn_backward"]
    assert backward(*given, 4, [True, True, True, True]) == 2 * 2 * 7 * 3 * weights
    assert backward(*given, 4, [True, True, True, False]) == 2 * 7 * 3 * weights


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("layout", "shapes"), [(torch.strided, None), (torch.jagged, [[2, -1, 4]])]
)
def test_a_nested_tensor_is_looked_at_and_ends_nothing(layout: torch.layout, shapes: object):
    """One has no sizes, and raises; one has a size that is not a number."""
    from pytest_dlperf.worker.frameworks.torch.watch import Watch

    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(5, 4)], layout=layout)
    model, watched = torch.nn.Linear(4, 3), Watch()
    with watched.first():
        model(rows)
    with watched.second():
        model(rows)
    assert watched.shapes.shapes == shapes
    assert watched.arithmetic.flops == {"float32": 2 * 7 * 4 * 3}
    assert not watched.arithmetic.uncounted


def test_a_formula_that_raises_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    from torch.utils.flop_counter import flop_registry

    from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype

    def formula(*_: object, **__: object) -> int:
        raise AssertionError("of shapes that are not known")

    monkeypatch.setitem(flop_registry, torch.ops.dlperf_tests.multiplied, formula)
    with FlopsByDtype() as watched:
        multiplied(A, B)
        A @ B
    assert watched.flops == {"float32": 2 * 8 * 4 * 3}
    assert list(watched.uncounted) == ["dlperf_tests::multiplied"]
    monkeypatch.setitem(flop_registry, torch.ops.dlperf_tests.multiplied, lambda *_, **__: 7)
    with FlopsByDtype() as watched:
        multiplied(A, B)
    assert (watched.flops, watched.uncounted) == ({"float32": 7}, {})


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


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_model_that_another_thread_calls_is_named_as_uncounted(in_thread: bool):
    """Its forward pass was left out of the count, without a word."""
    from concurrent.futures import ThreadPoolExecutor

    from pytest_dlperf.worker.frameworks.torch.watch import IN_THREAD, Watch

    model, inputs, watch = torch.nn.Linear(4, 4), torch.ones(2, 4), Watch()
    with ThreadPoolExecutor(1) as pool:

        def step() -> None:
            loss = pool.submit(model, inputs).result() if in_thread else model(inputs)
            loss.sum().backward()

        with watch.first():
            step()
        with watch.second():
            step()
    assert dict(watch.arithmetic.uncounted) == ({IN_THREAD: []} if in_thread else {})
