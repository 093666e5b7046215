"""The suites' models in Paddle are those in PyTorch, which are compared with their papers."""

from __future__ import annotations

import contextlib
from types import ModuleType, SimpleNamespace
from typing import Any

import paddle
import pytest
from paddle import _C_ops
from paddle.nn import functional as F

from perf_tests import paddle_batches
from perf_tests.arcface import paddle_train as arcface
from perf_tests.bert import paddle_train as bert
from perf_tests.bert import recipe as bert_recipe
from perf_tests.deeplabv3p import paddle_train as deeplabv3p
from perf_tests.hrnet import paddle_train as hrnet
from perf_tests.resnet50 import paddle_train as resnet50
from perf_tests.tsm import cases
from perf_tests.tsm import paddle_train as tsm
from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.worker.frameworks.paddle.framework import Paddle
from pytest_dlperf.worker.frameworks.paddle.job import LossScaler, PaddleJob
from pytest_dlperf.worker.frameworks.paddle.watch import FlopsByDtype

pytestmark = pytest.mark.paddle


def job(batch: int = 2, **fields) -> PaddleJob:
    paddle.seed(0)
    values = {
        "rank": 0, "local_rank": 0, "world_size": 1, "device": "cpu", "precision": "fp32",
        "batch_size_per_device": batch, "size": "tiny", "seed": 0, "dtype": "float32",
    }  # fmt: skip
    return PaddleJob(**values | fields)


def trained(model: paddle.nn.Layer) -> int:
    return sum(int(p.size) for p in model.parameters() if not p.stop_gradient)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # torchvision, ResNet50_Weights
        (lambda: resnet50.ResNet50(64, 1000), 25_557_032),
        # the same without its classifier, and one for 400 classes
        (lambda: tsm.TSM(64, 400), 25_557_032 - 2049 * 1000 + 2049 * 400),
        # the PyTorch model beside it
        (lambda: arcface.FaceResNet(64, 112, 512), 43_584_985),
        # the report's log, without 70,848 running means and variances
        (lambda: deeplabv3p.DeepLabV3P(64), 26_794_243 - 70_848),
    ],
    ids=["resnet50", "tsm", "arcface", "deeplabv3p"],
)
def test_parameters(model, parameters: int):
    assert trained(model()) == parameters


@pytest.fixture
def half_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases in half types are computed in float32: a CPU has no convolution in less."""
    monkeypatch.setattr(paddle_batches, "HALF", dict.fromkeys(paddle_batches.HALF, "float32"))
    monkeypatch.setattr(PaddleJob, "autocast", lambda self: contextlib.nullcontext())


TUNED = pytest.mark.parametrize("suite", [arcface, deeplabv3p, resnet50, tsm])


@TUNED
@pytest.mark.parametrize(("precision", "layout"), [("tf32", "NCHW"), ("bf16", "NHWC")])
@pytest.mark.usefixtures("half_in_float32")
def test_a_tuned_case_is_the_same_training(
    monkeypatch: pytest.MonkeyPatch, suite: ModuleType, precision: str, layout: str
):
    """What the report's recipe asks of Paddle does not change with it."""
    asked: list[dict[str, Any]] = []
    momentum = paddle.optimizer.Momentum

    def optimizer(*arguments: Any, **options: Any) -> Any:
        asked.append({n: v for n, v in options.items() if n not in {"parameters", "weight_decay"}})
        return momentum(*arguments, **options)

    monkeypatch.setattr(paddle.optimizer, "Momentum", optimizer)
    # Strong enough to be seen in two steps
    monkeypatch.setattr(suite, "WEIGHT_DECAY", 0.05)
    # Its masks are drawn in the order of memory
    monkeypatch.setattr(paddle.nn.Dropout, "forward", lambda self, x: x)
    losses, flops, begun, moved = [], [], [], []
    for options in ({}, {"tuned": True}):
        made = job(precision=precision, options=options, batch=8)
        step = suite.build(made)
        [model] = made.layers
        begun.append(weights := weights_of(model))
        counted = FlopsByDtype()
        with counted:
            first = step().item()
        losses.append([first, step().item()])
        flops.append(counted.flops)
        moved.append(
            [after - before for after, before in zip(weights_of(model), weights, strict=True)]
        )
    assert asked == [{}, {"use_multi_tensor": True}]
    assert layouts_of(model) == {layout}
    assert all((one == other).all() for one, other in zip(*begun, strict=True))
    assert flops[1] == flops[0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[0][1] < losses[0][0]
    for plain, tuned in zip(*moved, strict=True):
        assert abs(tuned - plain).max() <= 5e-3 * abs(plain).max() + 1e-6


def weights_of(model: paddle.nn.Layer) -> list[Any]:
    return [p.numpy().copy() for p in model.parameters() if not p.stop_gradient]


def layouts_of(model: paddle.nn.Layer) -> set[str]:
    convolutions = (m for m in model.sublayers() if isinstance(m, paddle.nn.Conv2D))
    return {convolution._data_format for convolution in convolutions}


@TUNED
def test_a_tuned_case_reads_what_it_computes_in(suite: ModuleType):
    images, _ = next(
        suite.feed(job(precision="bf16", options={"tuned": True}), suite.SIZES["tiny"])
    )
    assert images.dtype == paddle.bfloat16
    assert images.shape[-1] == 3
    assert images.is_contiguous()
    images, _ = next(suite.feed(job(precision="bf16"), suite.SIZES["tiny"]))
    assert images.dtype == paddle.float32
    assert images.shape[-3] == 3


def test_deeplabv3p_counted_as_paddle_counts_is_that_of_the_reports_log():
    parameters = deeplabv3p.DeepLabV3P(64).parameters()
    assert sum(int(parameter.size) for parameter in parameters) == 26_794_243


def test_bert_has_the_parameters_of_its_recipe():
    size = bert_recipe.SIZES["tiny"]
    assert trained(bert.Bert(size)) == bert_recipe.parameter_count(size)


def test_bert_updates_once_for_the_batches_it_accumulates():
    made = job(batch=3)
    step = bert.build(made)
    (model,) = made.layers
    before = model.pooler.weight.numpy()
    step()
    assert (model.pooler.weight.numpy() == before).all()
    step()
    assert (model.pooler.weight.numpy() != before).any()


def test_products_are_counted_however_their_arguments_are_given():
    x, y = paddle.ones([3, 4]), paddle.ones([5, 4])
    images, filters = paddle.ones([1, 2, 5, 5]), paddle.ones([3, 2, 3, 3])
    for call, flops in [
        (lambda: paddle.matmul(x, y, transpose_y=True), 2 * 3 * 5 * 4),
        (lambda: paddle.matmul(x=x, y=y, transpose_y=True), 2 * 3 * 5 * 4),
        (lambda: paddle.matmul(x=x, y=x, transpose_x=True), 2 * 4 * 4 * 3),
        (lambda: x.matmul(y=y.T), 2 * 3 * 5 * 4),
        (lambda: x @ y.T, 2 * 3 * 5 * 4),
        (lambda: F.conv2d(x=images, weight=filters), 2 * 3 * 3 * 3 * 2 * 9),
        (lambda: paddle.bmm(x[None], y.T[None]), 2 * 3 * 5 * 4),
        (lambda: paddle.addmm(paddle.ones([3, 5]), x, y.T), 2 * 3 * 5 * 4),
        (lambda: paddle.mv(x, paddle.ones([4])), 2 * 3 * 4),
    ]:
        counted = FlopsByDtype()
        with counted:
            call()
        assert counted.flops == {"float32": flops}
        assert not counted.uncounted


def test_operators_without_a_formula_are_named():
    images = paddle.ones([1, 2, 5, 5])
    before = {name: getattr(_C_ops, name) for name in dir(_C_ops)}
    for call, name in [
        (lambda: paddle.nn.LSTM(4, 3)(paddle.ones([2, 3, 4])), "rnn"),
        (lambda: paddle.nn.Conv2DTranspose(2, 3, 3)(images), "conv2d_transpose"),
        (lambda: paddle.einsum("ij,kj->ik", images[0, 0], images[0, 1]), "einsum"),
    ]:
        with (counted := FlopsByDtype()):
            call()
        assert counted.uncounted == {name: ["float32"]}
    assert {name: getattr(_C_ops, name) for name in dir(_C_ops)} == before
    with (counted := FlopsByDtype()):
        F.interpolate(images, scale_factor=2, mode="bilinear")
    assert not counted.uncounted
    # Arguments that are not known here: a formula that raises ends nothing
    with (counted := FlopsByDtype()):
        counted._counting("matmul", lambda **_: images, lambda **given: given["new"])()
    assert list(counted.uncounted) == ["matmul"]


class Recorder:
    """A loss scaler that notes the order of what is asked of it; Paddle has none on a CPU."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def scale(self, loss):
        self.calls.append("scale")
        return loss

    def __getattr__(self, name: str):
        return lambda *_: self.calls.append(name)


def test_tsm_clips_gradients_after_they_are_unscaled(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(
        paddle.nn.utils, "clip_grad_norm_", lambda _parameters, norm: calls.append(f"clip {norm}")
    )
    step = tsm.build(job(scaler=Recorder(calls)))
    step()
    assert calls == ["scale", "unscale_", "clip 20.0", "step", "update"]


@TUNED
def test_the_flags_of_options_are_set(monkeypatch, suite: ModuleType):
    """Recorded only: the CPU build does not have these flags."""
    flags: list[dict] = []
    monkeypatch.setattr(paddle, "set_flags", flags.append)
    suite.build(job(options=cases.PADDLE_FLAGS | {"other": 1}))
    assert flags == [
        {
            "FLAGS_conv_workspace_size_limit": 1000,
            "FLAGS_cudnn_exhaustive_search": True,
            "FLAGS_cudnn_batchnorm_spatial_persistent": True,
        }
    ]


def test_arcface_margin_is_added_to_the_angle_of_the_target_only():
    angle = paddle.to_tensor([[0.5, 1.0], [1.2, 0.3]], "float64")
    columns, here = paddle.to_tensor([[1], [0]]), paddle.to_tensor([[1.0], [0.0]], "float64")
    moved = arcface.with_margin(angle.cos(), columns, here).acos()
    assert moved.flatten().tolist() == pytest.approx([0.5, 1.5, 1.2, 0.3])


@pytest.fixture
def scaler(monkeypatch: pytest.MonkeyPatch) -> LossScaler:
    """A true loss scaler: Paddle makes none on a CPU, though what it does has kernels there."""
    place = SimpleNamespace(is_gpu_place=lambda: True)
    with monkeypatch.context() as patched:
        tracer = SimpleNamespace(_expected_place=place)
        patched.setattr(paddle.amp.grad_scaler, "_dygraph_tracer", lambda: tracer)
        return LossScaler()


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled")
@pytest.mark.parametrize("suite", [arcface, deeplabv3p, hrnet, resnet50, tsm])
def test_a_suite_steps_with_amp_as_without(suite, scaler: LossScaler):
    """In float32, since a CPU has no other kernels; with the loss scaled, as on a GPU."""
    mixed, plain = (suite.build(job(**f)) for f in ({"precision": "amp", "scaler": scaler}, {}))
    # Dropout draws alike for both.
    losses = [[seeded(step, seed) for seed in range(3)] for step in (mixed, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][0] != losses[0][2]
    assert scaler.is_enabled()


def seeded(step, seed: int) -> float:
    paddle.seed(seed)
    return step().item()


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled")
def test_deeplabv3p_steps_with_gradients_that_are_kept_larger(monkeypatch):
    """In float32, as a CPU has no convolution in float16."""
    monkeypatch.setattr(paddle.amp, "decorate", lambda model, **_: model)
    larger = deeplabv3p.build(job(precision="pure_fp16"))
    plain = deeplabv3p.build(job())
    losses = [[seeded(step, seed) for seed in range(3)] for step in (larger, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize(("value", "finite"), [(2.0, True), (float("inf"), False)])
def test_arcface_shares_an_overflow_and_nothing_else(value: float, finite: bool):
    weight = paddle.ones([3, 2])
    weight.stop_gradient = False
    (weight * value).sum().backward()
    arcface.share_overflow(weight.grad)
    assert weight.grad.isfinite().all().item() is finite
    if finite:
        assert weight.grad.flatten().tolist() == [value] * 6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_arcface_computes_its_loss_in_float32(monkeypatch, dtype: str):
    """Its logits go up to 64, where bfloat16 has steps of a quarter."""
    product = paddle.matmul
    # As autocast does on GPUs
    monkeypatch.setattr(paddle, "matmul", lambda *x, **names: product(*x, **names).astype(dtype))
    head = arcface.ShardedArcFace(4, 10, rank=0, world_size=1)
    assert head(paddle.randn([3, 4]), paddle.to_tensor([1, 2, 3])).dtype == paddle.float32


def test_a_loss_on_the_cpu_is_kept_as_a_number():
    """A tensor kept for each iteration holds the heap open around it, and memory grows."""
    loss = paddle.to_tensor([1.5], stop_gradient=False)
    kept = object.__new__(Paddle).keep_loss(loss)
    assert isinstance(kept, float)
    assert kept == 1.5


def test_ranks_that_share_a_batch_are_not_averaged():
    split = job(world_size=2, parallel=Parallel.parse("tp2"))
    with pytest.raises(ValueError, match="averages over all ranks here, and 2 of them share"):
        split.data_parallel(paddle.nn.Linear(2, 2))
