"""What devices did for the work: floating-point operations, their share of the peak, energy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.measure.records import RankRecords

_V100: Final = {"float16": 125.0, "float32": 15.7}
_A100: Final = {"float16": 312.0, "bfloat16": 312.0, "tf32": 156.0, "float32": 19.5}
_H100_SXM: Final = {"float16": 989.4, "bfloat16": 989.4, "tf32": 494.7, "float32": 66.9}
#: Peak of a device in TFLOP/s by dtype, dense (without sparsity), at its boost clock, as NVIDIA's
#: data sheets have them; the first pattern that the driver's name fits counts. A slice of a device
#: (MIG) has none.
PEAKS_TFLOP_PER_S: Final[Sequence[tuple[str, Mapping[str, float]]]] = (
    (r"B200\b", {"float16": 2250.0, "bfloat16": 2250.0, "tf32": 1125.0, "float32": 75.0}),
    (r"H200\b", _H100_SXM),
    (r"H100 PCIe\b", {"float16": 756.0, "bfloat16": 756.0, "tf32": 378.0, "float32": 51.0}),
    (r"H100 NVL\b", {"float16": 835.0, "bfloat16": 835.0, "tf32": 417.5, "float32": 60.0}),
    (r"H100 80GB HBM3\b|H100[- ]SXM", _H100_SXM),
    (r"A100\b", _A100),
    (r"A30\b", {"float16": 165.0, "bfloat16": 165.0, "tf32": 82.0, "float32": 10.3}),
    (r"A10\b", {"float16": 125.0, "bfloat16": 125.0, "tf32": 62.5, "float32": 31.2}),
    (r"L40S\b", {"float16": 362.0, "bfloat16": 362.0, "tf32": 183.0, "float32": 91.6}),
    (r"L4\b", {"float16": 121.0, "bfloat16": 121.0, "tf32": 60.0, "float32": 30.3}),
    (r"V100-PCIE", {"float16": 112.0, "float32": 14.0}),
    (r"V100\b", _V100),
    (r"\bT4\b", {"float16": 65.0, "float32": 8.1}),
)


def arithmetic_figures(
    case: Case, records: Sequence[RankRecords], seconds: float
) -> dict[str, float]:
    """Return ``flop_per_s_per_device`` and ``hardware_flops_utilisation``, of which both may lack.

    Matrix products, convolutions and attention of the second iteration are counted as they are
    executed, forward and backward, recomputation included; the operations of the window are those,
    times its work over the work of that iteration. The utilisation is the time that the counted
    operations take at the peak of their dtypes, over ``seconds``, those of the window: the
    hardware FLOPs utilisation of PaLM (arXiv 2204.02311, appendix B). The model FLOPs utilisation
    leaves recomputation out, and is the same where nothing is recomputed.
    """
    first, end = case.protocol.window
    total = ideal_s = 0.0
    peak_known = case.layout.device == "gpu"
    for rank in records:
        # Of Paddle and TensorFlow the backward pass is not counted
        if rank.by_kind["framework"]["framework"] != "torch" or len(rank.spans) < end:
            return {}
        flops = rank.by_kind["model"]["flops_by_dtype"] if rank.wrote("model") else {}
        looked_at = rank.spans[1].work
        if not flops or not looked_at:
            return {}
        scale = sum(span.work for span in rank.spans[first:end]) / looked_at
        total += scale * sum(flops.values())
        peak = peak_flop_per_s(rank.by_kind["framework"].get("device_name") or "", case.precision)
        peak_known = peak_known and flops.keys() <= peak.keys()
        if peak_known:
            ideal_s += scale * sum(count / peak[dtype] for dtype, count in flops.items())
    found = {"flop_per_s_per_device": total / seconds / len(records)}
    if peak_known:
        found["hardware_flops_utilisation"] = ideal_s / seconds / len(records)
    return found


def energy_figures(case: Case, gpu_figures: Mapping[str, float], rate: float) -> dict[str, float]:
    """Return ``joules_per_unit``: the energy of all GPUs for one sample, token or other unit.

    The mean power of a GPU of this node during the window, times the devices, over ``rate``, all
    devices' units a second. Empty where the power is unknown.
    """
    power_w = gpu_figures.get("gpu_power_w")
    return {} if power_w is None else {"joules_per_unit": power_w * case.world_size / rate}


def peak_flop_per_s(device_name: str, precision: str) -> dict[str, float]:
    """Return the peak of a device by dtype, in FLOP/s; empty where it is unknown."""
    if "MIG" in device_name:
        return {}
    for pattern, peaks in PEAKS_TFLOP_PER_S:
        if re.search(pattern, device_name):
            found = {dtype: 1e12 * value for dtype, value in peaks.items()}
            tf32 = found.pop("tf32", None)
            if precision == "tf32" and tf32 is not None:
                found["float32"] = tf32
            return found
    return {}
