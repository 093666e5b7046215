"""Floating-point operations a second, and their share of the device's peak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf import transformer_flops
from pytest_dlperf.core.device_rates import PEAKS_TFLOP_PER_S
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.measure.arithmetic import peak_flop_per_s
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, marked_records, rank_records, write

#: What PyTorch and the driver call them.
NAMES = {
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA A10G": None,
    "NVIDIA A10": 125.0,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H200": 989.4,
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA GH200 480GB": 989.4,
    "NVIDIA B200": 2250.0,
    "NVIDIA GB200": None,
    "NVIDIA L4": 121.0,
    "NVIDIA L40S": 362.0,
    "NVIDIA L40": None,
    "Tesla T4": 65.0,
    "Tesla V100-SXM2-32GB": 125.0,
    "Tesla V100-PCIE-16GB": 112.0,
    "Tesla V100-FHHL-16GB": None,
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": None,
    "AMD Instinct MI300X": None,
    "": None,
}


def measured(
    folder: Path,
    *,
    layout: str = "1n2c",
    precision: str = "fp32",
    flops_per_unit: float | None = None,
    **changes: Any,
) -> RunSummary:
    """Ten iterations of 0.1 s on two ranks; ``changes`` of a record on both ranks, by its kind."""
    records = [rank_records(0), rank_records(1)]
    for number, rank in enumerate(records):
        rank.append({"rank": number, "record": "arithmetic", "tf32": {}, "overrides": {}})
    for one in (record for rank in records for record in rank):
        one |= changes.get(one["record"], {})
    declared = case(layout, precision=precision, flops_per_unit=flops_per_unit)
    summary, _ = summarise(declared, write(folder, records))
    return summary


@pytest.mark.parametrize(("name", "peak"), NAMES.items())
def test_the_peak_of_a_device_by_the_drivers_name(name: str, peak: float | None):
    found = peak_flop_per_s(name, tf32=False).get("float16")
    assert found == (None if peak is None else pytest.approx(peak * 1e12))


def test_tf32_has_its_own_peak_where_it_is_used():
    assert peak_flop_per_s("NVIDIA A100-SXM4-80GB", tf32=True)["float32"] == pytest.approx(156e12)
    assert peak_flop_per_s("NVIDIA A100-SXM4-80GB", tf32=False)["float32"] == pytest.approx(
        19.5e12
    )
    assert peak_flop_per_s("Tesla V100-SXM2-32GB", tf32=True)["float32"] == pytest.approx(15.7e12)


def test_a_wider_dtype_is_never_faster():
    for peaks in filter(None, dict(PEAKS_TFLOP_PER_S).values()):
        assert peaks["float32"] <= peaks.get("tf32", peaks["float32"]) <= peaks["float16"]


def test_operations_of_the_window_over_its_seconds(tmp_path: Path):
    run = measured(tmp_path, model={"flops_by_dtype": {"float32": 3_000_000, "float64": 1000}})
    assert run.extras["flop_per_s_per_device"] == pytest.approx(3_001_000 / 0.1)
    assert "hardware_flops_utilisation" not in run.extras, "a CPU has no peak"


def test_the_share_of_the_peak_adds_the_times_of_each_dtype(tmp_path: Path):
    run = measured(
        tmp_path,
        layout="1n2g",
        precision="amp",
        model={"flops_by_dtype": {"float16": 6.24e12, "float32": 0.39e12}},
        framework={"device_name": "NVIDIA A100-SXM4-80GB"},
    )
    # 0.02 s at 312 TFLOP/s and 0.02 s at 19.5, of 0.1 s
    assert run.extras["hardware_flops_utilisation"] == pytest.approx(0.4)
    assert run.extras["peak_flop_per_s"] == pytest.approx(312e12)
    assert "model_flops_utilisation" not in run.extras, "the forward pass was not counted"


#: Half of the work in float32.
HALF = {"bfloat16": 3 * 3.3e12, "float32": 3 * 3.3e12}


@pytest.mark.parametrize(
    ("arithmetic", "peak"),
    [
        ({"tf32_in_step": {"matmul": [False]}}, 66.9),
        ({"tf32_in_step": {"matmul": [True]}}, 494.7),
        # What some of it did is taken for all: the share is at most too low
        ({"tf32_in_step": {"cudnn": [False], "matmul": [False, True]}}, 494.7),
        ({"tf32_in_step": {"matmul": [True]},
          "overrides": {"NVIDIA_TF32_OVERRIDE": "0"}}, 66.9),
        ({"tf32_in_step": {}, "overrides": {"NVIDIA_TF32_OVERRIDE": "1"}}, 494.7),
        ({}, 66.9),
    ],
)  # fmt: skip
def test_work_in_float32_has_the_peak_of_what_it_was_done_in(
    tmp_path: Path, arithmetic: dict[str, Any], peak: float
):
    run = measured(
        tmp_path,
        layout="1n2g",
        precision="bf16",
        model={
            "flops_by_dtype": {dtype: 0.1 * count for dtype, count in HALF.items()},
            "forward_flops": {dtype: 0.1 * count / 3 for dtype, count in HALF.items()},
        },
        framework={"device_name": "NVIDIA H100 80GB HBM3"},
        arithmetic=arithmetic,
    )
    ideal_s = 0.1 * (HALF["bfloat16"] / 989.4e12 + HALF["float32"] / (peak * 1e12))
    for name in ("hardware_flops_utilisation", "model_flops_utilisation"):
        assert run.extras[name] == pytest.approx(ideal_s / 0.1), name


@pytest.mark.parametrize("over", [1.04, 1.06])
def test_a_share_above_the_peak_is_a_problem_and_not_a_figure(tmp_path: Path, over: float):
    run = measured(
        tmp_path,
        layout="1n2g",
        precision="bf16",
        flops_per_unit=0.5 * 312e12 / 40,
        model={"flops_by_dtype": {"bfloat16": over * 31.2e12}},
        framework={"device_name": "NVIDIA A100-SXM4-80GB"},
    )
    found = [p.message for p in run.problems if p.code == "implausible-utilisation"]
    assert run.extras["model_flops_utilisation"] == pytest.approx(0.5)
    assert ("hardware_flops_utilisation" in run.extras) is (over < 1.05)
    assert [message.partition(";")[0] for message in found] == (
        []
        if over < 1.05
        else ["hardware_flops_utilisation 1.06: more than the device's peak, 312 TFLOP/s"]
    )


def test_mfu_is_three_times_the_forward_pass(tmp_path: Path):
    """What is computed again is in HFU alone: 8 of 6 units, of which 2 are forward."""
    run = measured(
        tmp_path,
        layout="1n2g",
        precision="bf16",
        model={
            "flops_by_dtype": {"bfloat16": 8 * 1.56e12},
            "forward_flops": {"bfloat16": 2 * 1.56e12},
        },
        framework={"device_name": "NVIDIA A100-SXM4-80GB"},
    )
    assert run.extras["hardware_flops_utilisation"] == pytest.approx(0.4)
    assert run.extras["model_flops_utilisation"] == pytest.approx(0.3)
    assert run.extras["model_flop_per_s_per_device"] == pytest.approx(0.3 * 312e12)


def test_mfu_of_declared_operations_is_that_by_hand(tmp_path: Path):
    """Llama 3 8B at 8192 tokens, as torchtitan counts it, at 5762 tokens/s on an H100."""
    per_token = transformer_flops(
        8_030_261_248, embedding=128_256 * 4096, layers=32, attention_width=4096,
        sequence=8192,
    )  # fmt: skip
    by_hand = 6 * (8_030_261_248 - 525_336_576) + 12 * 32 * 4096 * 8192
    assert per_token == by_hand == 57_914_449_920
    # 40 iterations of 4 units a second on each device
    run = measured(
        tmp_path,
        layout="1n2g",
        precision="bf16",
        flops_per_unit=per_token * 5762 / 40,
        model={"flops_by_dtype": {"bfloat16": 1e12}, "forward_flops": {"bfloat16": 1e12}},
        framework={"device_name": "NVIDIA H100 80GB HBM3"},
    )
    assert run.extras["model_flops_utilisation"] == pytest.approx(5762 * by_hand / 989.4e12)
    assert run.extras["model_flops_utilisation"] == pytest.approx(0.337, abs=0.001)


def test_a_causal_half_of_attention_is_named():
    keys = {"layers": 2, "attention_width": 32, "sequence": 16}
    assert transformer_flops(100, **keys) == 600 + 12 * 2 * 4 * 8 * 16
    assert transformer_flops(100, embedding=40, causal=True, **keys) == 360 + 6 * 2 * 4 * 8 * 16
    with pytest.raises(ValueError, match="no model has the sizes"):
        transformer_flops(100, embedding=101, **keys)


def test_a_program_has_the_operations_that_its_marker_declares(tmp_path: Path):
    records = [marked_records(0), marked_records(1)]
    declared = case("1n2c", command=["python", "x.py"], flops_per_unit=1e9)
    summary, _ = summarise(declared, write(tmp_path, records))
    assert summary.extras["model_flop_per_s_per_device"] == pytest.approx(40e9)
    assert "model_flops_utilisation" not in summary.extras


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "1e9"])
def test_operations_that_no_unit_has_are_a_usage_error(value: Any):
    with pytest.raises(UsageError, match=r"flops_per_unit .*: give the operations for one"):
        case("1n1c", flops_per_unit=value)


def test_one_number_of_operations_is_not_that_of_several_sizes():
    with pytest.raises(UsageError, match="option seq is a list of numbers, by which the operat"):
        case("1n1c", flops_per_unit=1e9, options={"seq": [1, 2]})


@pytest.mark.parametrize(
    "changes",
    [
        {"framework": {"device_name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb"}},
        {"model": {"flops_by_dtype": {"float8": 1e12}}},
    ],
)
def test_without_a_known_peak_there_is_no_share(tmp_path: Path, changes: Any):
    run = measured(tmp_path, layout="1n2g", precision="amp", **changes)
    assert "hardware_flops_utilisation" not in run.extras


@pytest.mark.parametrize(
    "changes",
    [
        {"framework": {"framework": "paddle"}},
        {"model": {"flops_by_dtype": {}}},
        {"model": {"uncounted": {"flash_attn::forward": ["bfloat16"]}}},
    ],
)
def test_what_was_not_counted_whole_is_not_shown(tmp_path: Path, changes: Any):
    assert "flop_per_s_per_device" not in measured(tmp_path, **changes).extras


def test_operations_are_in_proportion_to_the_work(tmp_path: Path):
    """The second iteration did half of the work of every measured one."""
    records = [rank_records(0), rank_records(1)]
    for one in (record for rank in records for record in rank if record["record"] == "span"):
        one["work"] = 2 if one["first_step"] == 1 else 4
    summary, _ = summarise(case(), write(tmp_path, records))
    plain = measured(tmp_path / "plain")
    name = "flop_per_s_per_device"
    assert summary.extras[name] == pytest.approx(2 * plain.extras[name])
