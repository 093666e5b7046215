"""Llama in JAX: the model of the other suite, and one training on any layout of devices."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest
from jax.sharding import PartitionSpec

from perf_tests.llama import jax_model
from perf_tests.llama.recipe import SIZES, parameter_count
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("name", SIZES)
def test_llama_has_the_parameters_of_its_size(name: str):
    made = jax.eval_shape(lambda key: jax_model.initial(SIZES[name], key), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(made)) == parameter_count(SIZES[name])


@pytest.mark.parametrize("splits", [1, 8])
@pytest.mark.parametrize("name", SIZES)
def test_parameters_lie_evenly_on_512_devices(name: str, splits: int):
    """JAX refuses others; the smallest model lies on as many as it is wide."""
    size = SIZES[name]
    length = {"dp": min(512, size.width) // splits, "tp": min(splits, size.kv_heads)}
    parts = jax_model.placements(size, shards=True, splits=splits > 1)
    made = jax.eval_shape(lambda key: jax_model.initial(size, key), jax.random.key(0))
    is_part = lambda node: isinstance(node, PartitionSpec)  # noqa: E731
    uneven = jax.tree.map(
        lambda part, leaf: [
            axis for axis, rows in zip(part, leaf.shape, strict=False)
            if axis is not None and rows % length[axis]
        ],
        parts, made, is_leaf=is_part,
    )  # fmt: skip
    assert not any(jax.tree.leaves(uneven))


@pytest.mark.nightly  # four launches; in CI test_jax_training.py has both ways to start
def test_llama_trains_at_tiny_size_in_each_way(tmp_path: Path):
    done, outcomes = train_suites(tmp_path, "llama and jax and fp32", "--cpus=2")
    assert done.returncode == 0, done.stdout
    found = {o["case"]["parallel"]: o["measurement"] for o in outcomes}
    assert set(found) == {"ddp", "fsdp2", "tp2"}
    for measurement in found.values():
        assert measurement["conditions"]["parameter_count"] == parameter_count(SIZES["tiny"])
        run = measurement["runs"][-1]
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
    # One model, and other random tokens
    first = {name: one["runs"][-1]["ranks"][0]["loss_first"] for name, one in found.items()}
    assert first["fsdp2"] == pytest.approx(first["ddp"], abs=0.2)
