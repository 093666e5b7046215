"""Cases of ``first_gpu.py``: each path and each fault once, and TSM for what noise does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.case import GPU_PRECISIONS

#: ``first_gpu.py --cpu`` sets it, and then tries what needs no GPU.
ON_CPU = "FIRST_GPU_ON_CPU" in os.environ
COMMON: dict[str, Any] = {
    "framework": "torch",
    "batch_size_per_device": 4 if ON_CPU else 64,
    "layout": "1n1c" if ON_CPU else "1n1g",
    "size": "tiny" if ON_CPU else "full",
}
PATHS = {
    "plain": ("fp32", "tf32", "amp", "bf16"),
    "fused": ("amp",),
    "module_compiled": ("bf16",),
    "function_compiled": ("bf16",),
    "fullgraph": ("bf16",),
    "reduce_overhead": ("bf16",),
    # Both are to be errors
    "secretly_tf32": ("fp32",),
    "newly_tf32": ("fp32",),
    "number_each_step": ("bf16",),
    "cuda_graph": ("bf16",),
    "fsdp2": ("fp32",),
}
FAULTS = {"out_of_memory": 120.0, "killed": 120.0, "bad_index": 120.0, "hangs": 30.0}


def _case(name: str, precision: str, **marker: Any) -> Any:
    workload = f"benchmarks.gpu_paths.workloads:{name}"

    @pytest.mark.dlperf(workload, suite=name, precision=precision, **COMMON, **marker)
    def test(dlperf: Any) -> None:
        dlperf.run()

    return test


for _name, _precisions in PATHS.items():
    for _precision in _precisions:
        if ON_CPU and (_precision in GPU_PRECISIONS or _name == "cuda_graph"):
            continue
        globals()[f"test_path_{_name}_{_precision}"] = _case(_name, _precision)
for _name, _timeout_s in FAULTS.items():
    globals()[f"test_fault_{_name}"] = _case(_name, "fp32", timeout_s=_timeout_s)


@pytest.mark.dlperf(
    command=[sys.executable, str(Path(__file__).with_name("marked.py"))],
    suite="marked",
    precision="fp32",
    unit="samples",
    **COMMON,
)
def test_path_marked(dlperf: Any) -> None:
    """A program with marks, and with a canary of its GPU."""
    dlperf.run()


def _noise(name: str, **marker: Any) -> Any:
    @pytest.mark.dlperf(
        "perf_tests.tsm.torch_train:build",
        suite=name,
        precision="bf16" if ON_CPU else "amp",
        **COMMON | ({} if ON_CPU else {"batch_size_per_device": 16}),
        **marker,
    )
    def test(dlperf: Any) -> None:
        dlperf.run()

    return test


test_noise_tsm = _noise("noise_tsm")
test_noise_tsm_warm = _noise("noise_tsm_warm", warmup_s=10.0)
