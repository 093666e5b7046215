"""Llama at tiny size: one model, whatever way its ranks hold it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from perf_tests.llama import torch_train
from perf_tests.llama.recipe import SIZES, parameter_count
from perf_tests.llama.torch_model import Attention, Llama, angles_of, initialize, rotated
from pytest_dlperf.worker.frameworks.torch.job import TorchJob
from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.torch
TINY = SIZES["tiny"]
BATCH = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the outcome of each way to hold the model on two ranks, by its words."""
    done, outcomes = train_suites(
        tmp_path_factory.mktemp("llama"), "llama and torch and fp32 and not sequence", "--cpus=2",
        "--dlperf-iterations=60", "--dlperf-warmup=10",
    )  # fmt: skip
    assert len(outcomes) == 3, done.stdout
    for outcome in outcomes:
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    return {outcome["case"]["parallel"]: outcome for outcome in outcomes}


def losses_of(outcome: dict[str, Any]) -> list[list[float]]:
    """Return the losses of each rank."""
    found = []
    for path in sorted(Path(outcome["measurement"]["runs"][0]["folder"]).glob("rank*.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found += [one["values"] for one in records if one["record"] == "loss"]
    return found


def test_every_way_trains(trained: dict[str, dict[str, Any]]):
    assert set(trained) == {"ddp", "fsdp2", "tp2"}
    for outcome in trained.values():
        [run] = outcome["measurement"]["runs"]
        assert_losses_fell(run)
        assert len(run["ranks"]) == 2
        conditions = outcome["measurement"]["conditions"]
        assert conditions["parameter_count"] == parameter_count(TINY)
    assert trained["ddp"]["measurement"]["speedup"] is not None
    assert trained["fsdp2"]["measurement"]["speedup"] is None


def test_sharded_and_copied_models_agree_on_the_loss(trained: dict[str, dict[str, Any]]):
    copied, sharded = (losses_of(trained[name]) for name in ("ddp", "fsdp2"))
    assert copied[0] != copied[1], "each rank has its own batch"
    for mine, other in zip(copied, sharded, strict=True):
        assert mine == pytest.approx(other, rel=1e-4)


def test_ranks_that_split_a_model_share_its_batch(trained: dict[str, dict[str, Any]]):
    first, second = losses_of(trained["tp2"])
    assert first == second
    # The model and the batch of rank 0 are the same before the first update
    assert first[0] == pytest.approx(losses_of(trained["ddp"])[0][0], rel=1e-5)


def test_tokens_of_a_batch_count_once(trained: dict[str, dict[str, Any]]):
    """By the spans: with ``tp2`` two ranks train on one batch, with ``ddp`` on two."""
    for name, batches in (("ddp", 2), ("fsdp2", 2), ("tp2", 1)):
        measured = trained[name]["measurement"]
        window_s = sum(measured["runs"][0]["step_seconds"][10:])
        tokens = 50 * batches * BATCH * TINY.sequence
        assert measured["throughput"] == pytest.approx(tokens / window_s, rel=0.02)


def test_operations_a_token_are_the_same_however_the_model_is_held(
    trained: dict[str, dict[str, Any]],
):
    """TFLOP/s of both devices over tokens/s: six for each weight and token, and attention."""
    head = TINY.width // TINY.heads
    matrices = parameter_count(TINY) - TINY.vocabulary * TINY.width - 3 * TINY.width
    by_hand = 6 * matrices + 14 * TINY.layers * TINY.sequence * TINY.heads * head
    for outcome in trained.values():
        measured = outcome["measurement"]
        [run] = measured["runs"]
        per_token = 2 * run["extras"]["flop_per_s_per_device"] / measured["throughput"]
        assert per_token == pytest.approx(by_hand, rel=0.01)


@pytest.mark.nightly  # torchao is in the nightly environment alone
def test_it_trains_in_float8(tmp_path: Path):
    if importlib.util.find_spec("torchao") is None:
        pytest.skip("torchao is not installed (tox env torch-nightly)")
    done, outcomes = train_suites(
        tmp_path, "llama and fp8", "--cpus=2", "--dlperf-iterations=40", "--dlperf-warmup=10"
    )
    assert len(outcomes) == 1, done.stdout
    measured = outcomes[0]["measurement"]
    assert measured is not None, outcomes[0]["judgement"]["reason"]
    assert measured["conditions"]["dtype"] == "float8"
    [run] = measured["runs"]
    assert len(run["ranks"]) == 2
    assert_losses_fell(run)


@pytest.mark.parametrize(("name", "count"), [("8b", 8_030_261_248), ("350m", 348_701_696)])
def test_the_number_of_parameters(name: str, count: int):
    """Llama 3 8B has 8,030,261,248 (its published checkpoint)."""
    with torch.device("meta"):
        model = Llama(SIZES[name])
    assert sum(p.numel() for p in model.parameters()) == parameter_count(SIZES[name]) == count


def test_a_rotation_keeps_lengths_and_depends_on_the_distance_alone():
    angles = angles_of(TINY, 8, torch.device("cpu"), torch.float32)
    made = torch.Generator().manual_seed(0)
    x, y = (
        rotated(torch.randn(1, 1, 1, 16, generator=made).expand(1, 1, 8, 16), angles)[0, 0]
        for _ in range(2)
    )
    near = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(x.norm(dim=-1), x[:1].norm(dim=-1).expand(8), **near)
    products = x @ y.T
    torch.testing.assert_close(products.diagonal(2), products[0, 2].expand(6), **near)
    assert (products[0, 2] - products[0, 3]).abs() > 0.01


def test_attention_sees_no_later_token_and_shares_keys():
    attention = Attention(TINY)
    initialize(attention, 0)
    assert attention.keys.weight.shape == (2 * 16, 64)
    angles = angles_of(TINY, 6, torch.device("cpu"), torch.float32)
    x = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[:, 4:] += 1
    before, after = attention(x, angles), attention(changed, angles)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_a_sequence_of_another_length_is_the_work_that_is_counted():
    job = TorchJob(
        rank=0, local_rank=0, world_size=1, device=torch.device("cpu"), precision="fp32",
        batch_size_per_device=2, size="tiny", seed=0, dtype=torch.float32,
        options={"sequence": 48, "recompute": True},
    )  # fmt: skip
    step = torch_train.build(job)
    assert job.iteration_work == 2 * 48
    first = [step().item() for _ in range(8)]
    assert first[-1] < first[0]


def test_activations_that_are_computed_again_give_the_same_gradients():
    gradients = []
    for recompute in (False, True):
        model = Llama(TINY, recompute=recompute)
        for index, part in enumerate(model.children()):
            initialize(part, index)
        model(torch.arange(8).view(1, 8)).square().mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(*gradients)
