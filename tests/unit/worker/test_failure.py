"""What is an error of a rank, from facts as devices and frameworks say them."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.wire_model import ArithmeticRecord
from pytest_dlperf.worker.failure import WorkerFailure, check_tf32

#: Relative errors of a product in these precisions.
FLOAT32, TF32 = 2e-7, 3e-4


def facts(
    *,
    matmul: bool,
    cudnn: bool,
    error: float | None = None,
    in_step: dict[str, list[bool]] | None = None,
    **overrides: str,
) -> ArithmeticRecord:
    return {
        "tf32": {"matmul": matmul, "cudnn": cudnn},
        "overrides": overrides,
        "product_error": error,
        "tf32_in_step": in_step or {},
    }


OFF = facts(matmul=False, cudnn=False, error=FLOAT32)
ON = facts(matmul=True, cudnn=True, error=TF32)


@pytest.mark.parametrize(
    ("precision", "found"),
    [
        ("fp32", OFF),
        ("tf32", ON),
        # NVIDIA's libraries obey the variable, and no flag.
        ("fp32", facts(matmul=True, cudnn=True, error=FLOAT32, NVIDIA_TF32_OVERRIDE="0")),
        (
            "fp32",
            facts(matmul=False, cudnn=False, in_step={"cudnn": [True]}, NVIDIA_TF32_OVERRIDE="0"),
        ),
        ("fp32", facts(matmul=False, cudnn=False, in_step={"matmul": [False]})),
        ("tf32", facts(matmul=True, cudnn=True, in_step={"matmul": [True]})),
        ("bf16", facts(matmul=False, cudnn=False, in_step={"matmul": [False, True]})),
        # What remains in float32 is the workload's to choose, and recorded.
        ("amp", ON),
        ("bf16", OFF),
        ("bf16", ON),
        ("pure_fp16", ON),
    ],
)
def test_a_precision_that_is_what_it_says(precision: str, found: ArithmeticRecord):
    check_tf32(found, precision, on_gpu=True)


@pytest.mark.parametrize(
    ("precision", "found", "message"),
    [
        ("fp32", facts(matmul=True, cudnn=False), "TF32 is on for matmul; leave it off"),
        ("fp32", facts(matmul=False, cudnn=True), "TF32 is on for cudnn;"),
        ("fp32", ON, "TF32 is on for matmul and cudnn;"),
        (
            "fp32",
            facts(matmul=False, cudnn=False, NVIDIA_TF32_OVERRIDE="1"),
            "NVIDIA_TF32_OVERRIDE=1 is set; unset it",
        ),
        # Flags that say one thing, and a device that does another.
        (
            "fp32",
            facts(matmul=False, cudnn=False, error=TF32),
            "a float32 product has a relative error of 0.0003",
        ),
        (
            "fp32",
            facts(matmul=False, cudnn=False, in_step={"matmul": [False], "cudnn": [False, True]}),
            "looked at TF32 was on for some of cudnn; leave it off in the step",
        ),
        (
            "tf32",
            facts(matmul=True, cudnn=True, in_step={"matmul": [False, True]}),
            "looked at TF32 was off for some of matmul; leave it on in the step",
        ),
        ("tf32", OFF, "TF32 is off for matmul and cudnn; leave it on"),
        ("tf32", facts(matmul=True, cudnn=False), "TF32 is off for cudnn;"),
        (
            "tf32",
            facts(matmul=True, cudnn=True, NVIDIA_TF32_OVERRIDE="0"),
            "NVIDIA_TF32_OVERRIDE=0 is set; unset it",
        ),
    ],
)
def test_a_precision_that_is_another_is_an_error(
    precision: str, found: ArithmeticRecord, message: str
):
    with pytest.raises(WorkerFailure, match=f"the case names {precision}, ") as raised:
        check_tf32(found, precision, on_gpu=True)
    assert raised.value.code == "precision-mismatch"
    assert message in str(raised.value)


def test_flags_of_a_gpu_do_nothing_on_a_cpu():
    check_tf32(facts(matmul=True, cudnn=True, error=FLOAT32), "fp32", on_gpu=False)
    check_tf32(OFF, "tf32", on_gpu=False)


def test_a_cpu_that_does_float32_in_a_shorter_dtype_is_an_error():
    with pytest.raises(WorkerFailure, match="a relative error of 0"):
        check_tf32(facts(matmul=False, cudnn=False, error=2e-3), "fp32", on_gpu=False)
