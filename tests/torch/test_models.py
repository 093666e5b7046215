"""The suites' models are what their papers and reports say."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from perf_tests.arcface import torch_train as arcface
from perf_tests.bert import recipe as bert_recipe
from perf_tests.bert import torch_train as bert
from perf_tests.deeplabv3p import torch_train as deeplabv3p
from perf_tests.resnet50 import torch_train as resnet50
from perf_tests.tsm import torch_train as tsm
from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.worker.frameworks.torch.framework import Torch
from pytest_dlperf.worker.frameworks.torch.job import TorchJob

pytestmark = pytest.mark.torch


def parameters_of(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def multiply_adds(model: torch.nn.Module, *shape: int) -> float:
    """Multiply-adds of one forward pass, counted by PyTorch as it runs."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(torch.zeros(shape))
    return counter.get_total_flops() / 2


def job(size: str = "tiny", batch: int = 2, **fields) -> TorchJob:
    torch.manual_seed(0)
    values = {
        "rank": 0, "local_rank": 0, "world_size": 1, "device": torch.device("cpu"),
        "precision": "fp32", "batch_size_per_device": batch, "size": size, "seed": 0,
        "dtype": torch.float32,
    }  # fmt: skip
    return TorchJob(**values | fields)


def test_resnet50_is_that_of_torchvision():
    """25,557,032 parameters and 4.09 billion multiply-adds (torchvision, ResNet50_Weights)."""
    model = resnet50.ResNet50(width=64, classes=1000)
    assert parameters_of(model) == 25_557_032
    assert multiply_adds(model, 1, 3, 224, 224) == pytest.approx(4.09e9, rel=0.002)


#: Smaller where a step takes longer.
BATCHES = {deeplabv3p: 2, tsm: 2}


def losses_of(suite: ModuleType, **fields: Any) -> list[float]:
    step = suite.build(job(batch=BATCHES.get(suite, 8), **fields))
    return [step().item() for _ in range(5)]


def losses_of_resnet50(**fields: Any) -> list[float]:
    return losses_of(resnet50, **fields)


TUNED = pytest.mark.parametrize("suite", [arcface, deeplabv3p, resnet50, tsm])


@TUNED
def test_a_tuned_case_is_the_same_training(monkeypatch: pytest.MonkeyPatch, suite: ModuleType):
    """What the report's recipe asks of PyTorch does not change with it."""
    asked: list[dict[str, Any]] = []
    layouts: list[bool] = []
    sgd, data_parallel = torch.optim.SGD, TorchJob.data_parallel

    def optimizer(*arguments: Any, **options: Any) -> torch.optim.SGD:
        made = sgd(*arguments, **options)
        asked.append({"fused": made.param_groups[0]["fused"]})
        return made

    def wrapped(self: TorchJob, module: torch.nn.Module, **options: Any) -> torch.nn.Module:
        asked.append(options)
        kernels = [m.weight for m in module.modules() if isinstance(m, torch.nn.Conv2d)]
        layouts.append(all(k.is_contiguous(memory_format=torch.channels_last) for k in kernels))
        return data_parallel(self, module, **options)

    monkeypatch.setattr(torch.optim, "SGD", optimizer)
    monkeypatch.setattr(TorchJob, "data_parallel", wrapped)
    # Its masks are drawn in the order of memory
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: x)
    # In float64: in float32 the order of sums alone grows to thousandths in five steps
    options: tuple[dict[str, bool], ...] = ({}, {"tuned": True})
    plain, tuned = (losses_of(suite, options=o, dtype=torch.float64) for o in options)
    assert asked == [{}, {"fused": None}, {"gradient_as_bucket_view": True}, {"fused": True}]
    assert layouts == [suite is resnet50, True]
    assert tuned == pytest.approx(plain, rel=1e-4)
    assert plain[-1] < plain[0]


@TUNED
def test_a_tuned_case_reads_what_it_computes_in(suite: ModuleType):
    options = {"tuned": True}
    inputs, _ = next(suite.feed(job(precision="bf16", options=options), suite.SIZES["tiny"]))
    assert inputs.dtype is torch.bfloat16
    images = inputs.flatten(0, -4)  # of TSM, frames of clips
    assert images.is_contiguous(memory_format=torch.channels_last)
    losses = losses_of(suite, precision="bf16", options=options)
    assert losses[-1] < losses[0]
    inputs, _ = next(suite.feed(job(precision="bf16"), suite.SIZES["tiny"]))
    assert inputs.dtype is torch.float32


def test_a_tuned_arcface_asks_the_gpu_for_no_number(monkeypatch: pytest.MonkeyPatch):
    """The number of rows of ``nonzero`` is one that the host waits for."""

    def waits(*_: Any) -> None:
        raise AssertionError("nonzero waits for the GPU")

    tuned, plain = (arcface.build(job(options=o)) for o in ({"tuned": True}, {}))
    monkeypatch.setattr(torch.Tensor, "nonzero", waits)
    tuned()
    with pytest.raises(AssertionError, match="nonzero waits"):
        plain()


@pytest.mark.parametrize(
    ("options", "modes"),
    [
        ({"tuned": True}, []),
        ({"compile": True}, ["default"]),
        ({"compile": True, "cuda_graphs": True}, ["reduce-overhead"]),
    ],
)
def test_resnet50_is_compiled_as_its_options_say(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, bool], modes: list[str]
):
    seen: list[str] = []

    def compile_(model: torch.nn.Module, *, mode: str) -> torch.nn.Module:
        seen.append(mode)
        return model

    monkeypatch.setattr(torch, "compile", compile_)
    losses_of_resnet50(options=options)
    assert seen == modes


def test_resnet50_has_no_cuda_graphs_without_the_compiler():
    with pytest.raises(ValueError, match="give compile as well"):
        resnet50.build(job(options={"cuda_graphs": True}))


def test_resnet50_has_its_stride_in_the_3x3_and_spares_norms_of_decay():
    model = resnet50.ResNet50(width=64, classes=1000)
    strided = [block for block in model.blocks if block.spatial[0].stride == (2, 2)]
    assert len(strided) == 3
    assert all(block.reduce[0].stride == (1, 1) for block in model.blocks)
    decayed, spared = resnet50.parameter_groups(model)
    assert (decayed["weight_decay"], spared["weight_decay"]) == (1 / 32768, 0)
    assert sum(p.numel() for p in spared["params"]) == 53_120


def test_tsm_costs_what_its_paper_says():
    """24.3 M parameters, 33 billion multiply-adds for 8 frames (arXiv 1811.08383, table 2)."""
    model = tsm.TSM(width=64, classes=400)
    # ResNet-50 without its classifier, and one for 400 classes.
    assert parameters_of(model) == 25_557_032 - 2049 * 1000 + 2049 * 400
    assert multiply_adds(model, 1, 8, 3, 224, 224) == pytest.approx(33e9, rel=0.01)


def test_temporal_shift_moves_an_eighth_each_way_within_a_clip():
    clips = torch.arange(2 * 8 * 16, dtype=torch.float32).view(16, 16, 1, 1)
    shifted = tsm.temporal_shift(clips).view(2, 8, 16)
    frames = clips.view(2, 8, 16)
    assert torch.equal(shifted[:, :-1, :2], frames[:, 1:, :2])
    assert torch.equal(shifted[:, 1:, 2:4], frames[:, :-1, 2:4])
    assert torch.equal(shifted[:, :, 4:], frames[:, :, 4:])
    assert not shifted[:, -1, :2].any()
    assert not shifted[:, 0, 2:4].any()


class Recorder:
    """A true loss scaler that also notes the order of what is asked of it."""

    def __init__(self) -> None:
        self.scaler = torch.amp.GradScaler("cpu")
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        self.calls.append(name)
        return getattr(self.scaler, name)


def weights_after_steps(monkeypatch: pytest.MonkeyPatch, scaler=None, steps: int = 2):
    models = []
    with monkeypatch.context() as patch:
        made = TorchJob.data_parallel
        patch.setattr(TorchJob, "data_parallel", lambda self, m: models.append(m) or made(self, m))
        step = tsm.build(job(scaler=scaler))
    torch.manual_seed(1)
    for _ in range(steps):
        step()
    return torch.cat([parameter.detach().flatten() for parameter in models[0].parameters()])


def test_tsm_clips_gradients_after_they_are_unscaled(monkeypatch):
    """Were they clipped while 65,536 times too large, the step would be far too short."""
    scaler = Recorder()
    plain = weights_after_steps(monkeypatch)
    scaled = weights_after_steps(monkeypatch, scaler)
    assert scaler.calls == ["scale", "unscale_", "step", "update"] * 2
    assert scaler.scaler.get_scale() == 65_536
    torch.testing.assert_close(scaled, plain, rtol=1e-3, atol=1e-5)


def test_deeplabv3p_is_that_of_the_reports_log():
    """The log of the report counts 26,794,243 parameters and 228,440,246,784 multiply-adds.

    It counts the running means and variances of batch normalisation as parameters, and its
    activations and pools as operations; without them the two agree.
    """
    model = deeplabv3p.DeepLabV3P(width=64)
    running = sum(b.numel() for name, b in model.named_buffers() if "running" in name)
    assert parameters_of(model) + running == 26_794_243
    assert parameters_of(model) == pytest.approx(26_794_243, rel=0.01)
    assert multiply_adds(model, 1, 3, 512, 1024) == pytest.approx(228_440_246_784, rel=0.005)


def test_deeplabv3p_works_at_output_stride_8():
    model = deeplabv3p.DeepLabV3P(width=8).eval()
    low_level, high_level = model.trunk(torch.zeros(1, 3, 64, 128))
    assert low_level.shape[2:] == (16, 32)
    assert high_level.shape[2:] == (8, 16)
    assert model(torch.zeros(1, 3, 64, 128)).shape == (1, 19, 64, 128)


def test_arcface_trunk_is_the_improved_resnet_of_its_paper():
    """At depth 100 it has 65.132 M parameters and 24.2115 GFLOPs (OpenVINO's model zoo).

    That page counts a multiply-add as two, and describes the authors' own ResNet100; PLSC's
    "ResNet50" is the same network with 3, 4, 14 and 3 blocks.
    """
    hundred = arcface.FaceResNet(64, 112, 512, depths=(3, 13, 30, 3))
    assert parameters_of(hundred) == pytest.approx(65.132e6, rel=0.001)
    assert 2 * multiply_adds(hundred, 1, 3, 112, 112) == pytest.approx(24.2115e9, rel=0.005)
    fifty = arcface.FaceResNet(64, 112, 512)
    assert sum(isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3)
               for m in fifty.modules()) == 49  # fmt: skip


def test_arcface_margin_is_added_to_the_angle_of_the_target_only():
    angle = torch.tensor([[0.5, 1.0], [1.2, 0.3]], dtype=torch.float64)
    moved = arcface.with_margin(angle.cos(), torch.tensor([1, -1]))
    expected = angle.clone()
    expected[0, 1] += 0.5
    torch.testing.assert_close(moved.acos(), expected)


def test_gradients_are_averaged_over_the_replicas_alone(monkeypatch):
    """Ranks that share a batch hold other parts of the model."""
    wrapped = []
    monkeypatch.setattr(
        "pytest_dlperf.worker.frameworks.torch.job.DistributedDataParallel",
        lambda module, **options: wrapped.append(options) or module,
    )
    replicas = SimpleNamespace(get_group=lambda: "ranks of other replicas")
    monkeypatch.setattr(TorchJob, "mesh", {"dp": replicas})
    for text, group in (("ddp", {}), ("ddp-tp2", {"process_group": "ranks of other replicas"})):
        one = job(world_size=4, parallel=Parallel.parse(text))
        one.data_parallel(torch.nn.Linear(2, 2))
        assert wrapped.pop() == {"device_ids": None, **group}


def test_a_loss_on_the_cpu_is_kept_as_a_number():
    """A tensor kept for each iteration holds the heap open around it, and memory grows."""
    loss = torch.tensor(3.0, requires_grad=True) / 2
    kept = object.__new__(Torch).keep_loss(loss)
    assert isinstance(kept, float)
    assert kept == 1.5


def test_bert_has_the_parameters_of_bert_base():
    """110,106,428 with the heads of pre-training (arXiv 1810.04805: 110 M), and 6 words more."""
    with torch.device("meta"):
        model = bert.Bert(bert_recipe.SIZES["full"])
    # A word has a row of 768 and a bias of the head.
    assert parameters_of(model) == 110_106_428 + 6 * 769
    for size in bert_recipe.SIZES.values():
        with torch.device("meta"):
            assert parameters_of(bert.Bert(size)) == bert_recipe.parameter_count(size)


def test_bert_updates_once_for_the_batches_it_accumulates():
    made = job(batch=3)
    step = bert.build(made)
    (model,) = made.modules
    before = model.pooler.weight.detach().clone()
    step()
    assert torch.equal(model.pooler.weight, before)
    assert model.pooler.weight.grad is not None
    step()
    assert not torch.equal(model.pooler.weight, before)
    assert model.pooler.weight.grad is None


def test_bert_masks_distinct_tokens_of_each_sequence():
    size = bert_recipe.SIZES["tiny"]
    _, sentences, masked, words, follows = bert.batch_of(job(batch=3), size)
    by_sequence = masked.view(3, size.predictions)
    assert [set((row // size.sequence).tolist()) for row in by_sequence] == [{0}, {1}, {2}]
    assert len(set(masked.tolist())) == len(words) == 3 * size.predictions
    assert sentences.sum(1).tolist() == [size.sequence // 2] * 3
    assert follows.shape == (3,)
