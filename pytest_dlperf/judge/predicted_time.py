"""Predicts the time of a traced step on a device, operator by operator, by its data sheet.

A roofline, as in Williams, Waterman and Patterson, https://doi.org/10.1145/1498765.1498785: an
operator takes the longer one of two times, that of its operations at the peak of their dtype and
that of its bytes at the rate of the memory. A collective takes what a rank sends at least, at the
rate of the link. No verdict follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_dlperf.core.cost import PredictedTime
from pytest_dlperf.core.device_rates import DEVICE_RATES, DeviceRates
from pytest_dlperf.core.wire_cost import FUSED_LATER, CostRecord, StageCost
from pytest_dlperf.judge.cost_places import sent_bytes, traffic_of


@dataclass(slots=True)
class _Seconds:
    products: float = 0.0
    memory: float = 0.0
    collectives: float = 0.0
    exposed: float = 0.0

    @property
    def step(self) -> float:
        """What work hides takes no longer than the work; the rest comes on top."""
        hidden = self.collectives - self.exposed
        return max(self.products + self.memory, hidden) + self.exposed


def predicted_time(
    cost: CostRecord, device: str, devices_per_node: int, before: CostRecord | None = None
) -> PredictedTime:
    """Return the time of a step on ``device``, a row of ``DEVICE_RATES``.

    Of a pipeline it is that of the slowest stage alone. ``before`` is the cost that it is compared
    with. Where the device has no peak for a dtype of the step, or a compiler decides what is
    launched, ``problem`` says so.
    """
    rates = DEVICE_RATES[device]
    if cost["framework"] in FUSED_LATER:
        problem = f"{cost['framework']} fuses operators, and its trace is of those before it"
        return PredictedTime(device=device, problem=problem)
    missing = _without_peak(cost, rates) or (
        "" if before is None else _without_peak(before, rates)
    )
    if missing:
        return PredictedTime(device=device, problem=f"{device} has no peak in {missing}")
    slowest = _slowest(cost, rates, devices_per_node)
    was = None if before is None else _slowest(before, rates, devices_per_node)
    return PredictedTime(
        device=device,
        step_ms=1e3 * slowest.step,
        before_ms=None if was is None else 1e3 * was.step,
        products_ms=1e3 * slowest.products,
        memory_ms=1e3 * slowest.memory,
        collectives_ms=1e3 * slowest.collectives,
        exposed_ms=1e3 * slowest.exposed,
    )


def _without_peak(cost: CostRecord, rates: DeviceRates) -> str:
    """Return the dtypes that products have and the device has no peak for."""
    dtypes = {dtype for stage in cost["stages"] for dtype in stage["flops"]}
    return ", ".join(sorted(dtypes - rates.peak_flop_per_s.keys()))


def _slowest(cost: CostRecord, rates: DeviceRates, devices_per_node: int) -> _Seconds:
    stages = [_seconds(stage, rates, devices_per_node) for stage in cost["stages"]]
    return max(stages, key=lambda seconds: seconds.step)


def _seconds(stage: StageCost, rates: DeviceRates, devices_per_node: int) -> _Seconds:
    seconds, peaks = _Seconds(), rates.peak_flop_per_s
    for operator in stage["operators"]:
        flops, dtype = operator["flops"], operator["flops_dtype"]
        product_s = flops / peaks[dtype] if flops else 0.0
        memory_s = traffic_of(operator) / (1e9 * rates.memory_gb_per_s)
        if product_s > memory_s:
            seconds.products += product_s
        else:
            seconds.memory += memory_s
    for part in stage["collectives"]:
        within = part["span"] <= devices_per_node
        rate = rates.link_gb_per_s if within else rates.network_gb_per_s
        taken_s = sent_bytes(part) / (1e9 * rate)
        seconds.collectives += taken_s
        seconds.exposed += taken_s * (1 - part.get("overlapped", 0) / part["calls"])
    return seconds
