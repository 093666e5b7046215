"""What devices did for the work: floating-point operations, their share of the peak, energy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.device_rates import PEAKS_TFLOP_PER_S
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.wire_model import DTYPE_OF_PRECISION
from pytest_dlperf.measure.records import RankRecords


def arithmetic_figures(
    case: Case, records: Sequence[RankRecords], seconds: float
) -> dict[str, float]:
    """Return what was counted of a run in FLOP/s of a device and shares of its peak.

    Matrix products, convolutions and attention of the second iteration are counted as they are
    executed, forward and backward, recomputation included: ``flop_per_s_per_device``. The
    operations of the window are those, times its work over the work of that iteration.
    ``hardware_flops_utilisation`` is the time that they take at the peak of their dtypes, over
    ``seconds``, those of the window. ``model_flop_per_s_per_device`` and
    ``model_flops_utilisation`` are the same of three times the forward pass, without what is
    computed again, where all matrices are trained: both as PaLM defines them (arXiv 2204.02311,
    appendix B); or of what the case declares in ``flops_per_unit``. ``peak_flop_per_s`` is the
    peak of the dtype that does most. Each is left out where it is not known: what is counted of
    an iteration in which other operators may have done matrix work as well is not all of it.
    """
    counted = [_counted(case, rank) for rank in records]
    counts = [count for count in counted if count is not None]
    if len(counts) < len(records):
        return _declared(case, records, seconds)
    device_s = seconds * case.world_size
    flop = sum(sum(flops.values()) for flops, _, _ in counts)
    figures = {"flop_per_s_per_device": flop / device_s}
    if all(forward for _, forward, _ in counts):
        model = 3 * sum(sum(forward.values()) for _, forward, _ in counts)
        figures["model_flop_per_s_per_device"] = model / device_s
    if all(_has_peak(flops, peak) for flops, _, peak in counts):
        ideal_s = sum(_ideal_s(flops, peak) for flops, _, peak in counts)
        figures["hardware_flops_utilisation"] = ideal_s / device_s
        most = max(counts[0][0], key=lambda dtype: counts[0][0][dtype])
        figures["peak_flop_per_s"] = min(peak[most] for _, _, peak in counts)
        if "model_flop_per_s_per_device" in figures:
            ideal_s = 3 * sum(_ideal_s(forward, peak) for _, forward, peak in counts)
            figures["model_flops_utilisation"] = ideal_s / device_s
    return {**figures, **_declared(case, records, seconds)}


#: Shares of a peak up to which a share may be above it: devices' clocks and counts are not exact.
_PLAUSIBLE: Final = 1.05


def plausible(figures: Mapping[str, float]) -> tuple[dict[str, float], list[Problem]]:
    """Return the figures without shares of the peak that no device has, and these as a problem."""
    shares = ("hardware_flops_utilisation", "model_flops_utilisation")
    beyond = {name: figures[name] for name in shares if figures.get(name, 0) > _PLAUSIBLE}
    if not beyond:
        return dict(figures), []
    words = " and ".join(f"{name} {value:.3g}" for name, value in beyond.items())
    message = (
        f"{words}: more than the device's peak, {figures['peak_flop_per_s'] / 1e12:.4g} TFLOP/s; "
        "they are left out. Its operations were counted or declared too many, or were done in a "
        "dtype that is shorter than it seems; look at flops_per_unit and at flags that the "
        "workload sets"
    )
    left = {name: value for name, value in figures.items() if name not in beyond}
    return left, [Problem(code="implausible-utilisation", message=message)]


_Flops = Mapping[str, float]


def _counted(case: Case, rank: RankRecords) -> tuple[_Flops, _Flops, _Flops] | None:
    """Return a rank's operations in the window by dtype, those forward, and its device's peaks.

    None where they were not counted whole.
    """
    first, end = case.protocol.window
    framework = FRAMEWORKS.get(rank.by_kind["framework"]["framework"])
    if framework is None or not framework.counts_backward or len(rank.spans) < end:
        return None
    looked_at = rank.spans[1].work
    if not looked_at or not rank.wrote("model"):
        return None
    model = rank.by_kind["model"]
    flops = model["flops_by_dtype"]
    if not flops or model.get("uncounted"):
        return None
    scale = sum(span.work for span in rank.spans[first:end]) / looked_at
    return (
        {dtype: scale * count for dtype, count in flops.items()},
        {dtype: scale * count for dtype, count in model.get("forward_flops", {}).items()},
        _peak_of(case, rank),
    )


def _peak_of(case: Case, rank: RankRecords) -> dict[str, float]:
    if case.layout.device != "gpu":
        return {}
    name = rank.by_kind["framework"].get("device_name") or ""
    return peak_flop_per_s(name, tf32=case.precision == "tf32" or _used_tf32(rank))


def _used_tf32(rank: RankRecords) -> bool:
    """Return whether TF32 was in force at some float32 work of the watched iteration.

    Where some used it and some did not, all is taken to have: no share is then too high.
    """
    arithmetic = rank.by_kind.get("arithmetic", {})
    override = arithmetic.get("overrides", {}).get("NVIDIA_TF32_OVERRIDE")
    if override in {"0", "1"}:
        return bool(override == "1")
    in_step = arithmetic.get("tf32_in_step", {})
    return any(True in seen for seen in in_step.values())


def _has_peak(flops: _Flops, peak: _Flops) -> bool:
    return flops.keys() <= peak.keys()


def _ideal_s(flops: _Flops, peak: _Flops) -> float:
    return sum(count / peak[dtype] for dtype, count in flops.items())


def _declared(case: Case, records: Sequence[RankRecords], seconds: float) -> dict[str, float]:
    """Return the figures of the operations that the case declares for a unit of its work."""
    if case.flops_per_unit is None:
        return {}
    first, end = case.protocol.window
    work = sum(span.work for rank in records for span in rank.spans[first:end])
    rate = work * case.flops_per_unit / seconds / case.world_size
    figures = {"model_flop_per_s_per_device": rate}
    dtype = DTYPE_OF_PRECISION[case.precision]
    peaks = [peak for rank in records if (peak := _peak_of(case, rank).get(dtype)) is not None]
    if peaks and len(peaks) == len(records):
        figures["peak_flop_per_s"] = min(peaks)
        figures["model_flops_utilisation"] = rate / min(peaks)
    return figures


def energy_figures(case: Case, gpu_figures: Mapping[str, float], rate: float) -> dict[str, float]:
    """Return ``joules_per_unit``: the energy of all GPUs for one sample, token or other unit.

    The mean power of a GPU of this node during the window, times the devices, over ``rate``, all
    devices' units a second. Empty where the power is unknown.
    """
    power_w = gpu_figures.get("gpu_power_w")
    return {} if power_w is None else {"joules_per_unit": power_w * case.world_size / rate}


def peak_flop_per_s(device_name: str, *, tf32: bool) -> dict[str, float]:
    """Return the peak of a device by dtype, in FLOP/s; empty where it is unknown.

    With ``tf32`` that of float32 is TF32's, on devices that have it.
    """
    if "MIG" in device_name:
        return {}
    for pattern, peaks in PEAKS_TFLOP_PER_S:
        if re.search(pattern, device_name):
            found = {dtype: 1e12 * value for dtype, value in peaks.items()}
            of_tf32 = found.pop("tf32", None)
            if tf32 and of_tf32 is not None:
                found["float32"] = of_tf32
            return found
    return {}
