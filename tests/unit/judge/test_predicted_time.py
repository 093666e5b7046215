"""The predicted time of a step: formulas, which links, and what has no peak."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.core.device_rates import DEVICE_RATES
from pytest_dlperf.judge.cost_places import sent_bytes, traffic_of
from pytest_dlperf.judge.predicted_time import predicted_time
from tests.helpers.costs import LAYERS, cost_record, operator_in

H100 = DEVICE_RATES["h100"]
STAGE = cost_record()["stages"][0]


def test_an_operator_takes_the_longer_time_of_its_products_and_its_bytes():
    predicted = predicted_time(cost_record(), "h100", 8)
    # That of the head has few operations for its bytes, as the fixture has it
    bound = [part for part in STAGE["operators"] if part["flops"] and part["path"] != "head"]
    others = [part for part in STAGE["operators"] if part not in bound]
    flops = sum(part["flops"] for part in bound)
    assert predicted.products_ms == pytest.approx(1e3 * flops / 989.4e12)
    traffic = sum(map(traffic_of, others))
    assert predicted.memory_ms == pytest.approx(1e3 * traffic / 3350e9)

    def many(stage: dict[str, Any]) -> None:
        operator_in(stage, "head")["flops"] = 10**15

    assert predicted_time(cost_record(many), "h100", 8).products_ms > 1e3


def test_operators_that_are_fused_later_have_no_time_of_their_own():
    predicted = predicted_time(cost_record(framework="jax"), "h100", 8)
    assert (predicted.step_ms, predicted.problem[:20]) == (None, "jax fuses operators,")


def test_what_is_hidden_takes_nothing_until_it_takes_longer_than_the_work():
    predicted = predicted_time(cost_record(), "h100", 8)
    [gather] = STAGE["collectives"]
    assert predicted.collectives_ms == pytest.approx(1e3 * sent_bytes(gather) / 450e9)
    # Half of them are followed by other work
    assert predicted.exposed_ms == pytest.approx(predicted.collectives_ms / 2)
    work_ms = predicted.products_ms + predicted.memory_ms
    assert predicted.step_ms == pytest.approx(work_ms + predicted.exposed_ms)

    def hidden(stage: dict[str, Any]) -> None:
        stage["collectives"][0].update(overlapped=2 * LAYERS, bytes=10**10)

    long = predicted_time(cost_record(hidden), "h100", 8)
    assert long.step_ms == pytest.approx(long.collectives_ms)


def test_ranks_of_several_nodes_have_the_network():
    within = predicted_time(cost_record(), "h100", 8)
    apart = predicted_time(cost_record(), "h100", 4)
    ratio = H100.link_gb_per_s / H100.network_gb_per_s
    assert apart.collectives_ms == pytest.approx(ratio * within.collectives_ms)


def test_both_sides_are_predicted():
    predicted = predicted_time(cost_record(), "h100", 8, cost_record())
    assert predicted.before_ms == predicted.step_ms


def test_a_device_without_the_dtype_says_so():
    predicted = predicted_time(cost_record(), "v100", 8)
    assert predicted.step_ms is None
    assert predicted.problem == "v100 has no peak in bfloat16"


@pytest.mark.parametrize("name", DEVICE_RATES)
def test_every_device_has_peaks(name: str):
    assert DEVICE_RATES[name].peak_flop_per_s["float16"] > 1e14
