"""What the canary of a GPU multiplies, tried on a CPU in small."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.worker.frameworks import canary

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

SMALL = canary.Work(
    side=64, copied=100, reduced=10, matmul_s=0.0, copy_s=0.0, all_reduces=5, launches=3
)


@pytest.fixture
def factors(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list that the factors of every product are added to."""
    seen: list[Any] = []
    multiply = torch.mm

    def noted(left: Any, right: Any, **keywords: Any) -> Any:
        seen.append((left, right))
        return multiply(left, right, **keywords)

    monkeypatch.setattr(canary, "work_of", lambda *, on_gpu: SMALL)
    monkeypatch.setattr(torch, "mm", noted)
    return seen


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", "float32"), ("tf32", "float32"), ("amp", "float16"), ("bf16", "bfloat16"),
     ("pure_fp16", "float16")],
)  # fmt: skip
def test_random_numbers_of_the_type_that_the_case_computes_in(
    factors: list[Any], precision: str, dtype: str
):
    from pytest_dlperf.worker.frameworks.torch.framework import measure_canary

    before = torch.get_rng_state()
    found = measure_canary(torch.device("cpu"), precision, on_gpu=True)
    assert found["sustained_matmul_gflop_per_s"] > 0
    assert found["sustained_copy_gb_per_s"] > 0
    assert found["sustained_all_reduce_gb_per_s"] is None
    # One repetition to warm up and the fewest that count, of three launches each
    assert len(factors) == (1 + 5) * 3
    for left, right in factors:
        assert left.dtype is right.dtype is getattr(torch, dtype)
        assert left.float().std() == pytest.approx(1.0, abs=0.1)
        assert not torch.equal(left, right)
    assert torch.equal(torch.get_rng_state(), before), "the training draws other numbers"


def test_ones_on_a_cpu(factors: list[Any]):
    from pytest_dlperf.worker.frameworks.torch.framework import measure_canary

    found = measure_canary(torch.device("cpu"), "bf16", on_gpu=False)
    assert set(found) == {"matmul_gflop_per_s", "copy_gb_per_s", "all_reduce_gb_per_s"}
    assert all(left.dtype is torch.float32 and (left == 1).all() for left, _ in factors)


def test_a_rank_alone_in_its_group_has_no_links(factors: list[Any], tmp_path: Any):
    """As of FSDP2 on one GPU."""
    from pytest_dlperf.worker.frameworks.torch.framework import measure_canary

    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        found = measure_canary(torch.device("cpu"), "fp32", on_gpu=False)
    finally:
        dist.destroy_process_group()
    assert found["all_reduce_gb_per_s"] is None
