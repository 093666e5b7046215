"""What the terminal, a comment and a page say of the cost of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.cost import PredictedTime, PredictionError
from pytest_dlperf.core.cost_record import checked_cost
from pytest_dlperf.core.outcome import Outcome, outcome_from_json, outcome_to_json
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.judge.cost import cost_comparison, cost_findings
from pytest_dlperf.judge.verdict import judgement_by
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.cost import column_cells, error_words, predicted_words, terminal_lines
from pytest_dlperf.report.page.cost_section import cost_section
from pytest_dlperf.report.terminal import table
from tests.helpers.costs import LAYERS, PRODUCT_FLOPS, cost_record, operator_in

[CASE] = expand(suite="net", workload="w:build", batch_size_per_device=4, layout="1n8g")


def extra_product(stage: dict[str, Any]) -> None:
    operator_in(stage, "blocks.*.mlp").update(calls=4 * LAYERS, flops=4 * LAYERS * PRODUCT_FLOPS)


def test_what_a_framework_does_not_count_is_absent_and_not_zero():
    record = cost_record(framework="another")
    for stage in record["stages"]:
        for name in ("launches", "memory", "host_waits", "graph_breaks", "recompilations"):
            del stage[name]  # type: ignore[misc]
    del record["parameters"]
    checked_cost(record)
    outcome = outcome_of(record, record)
    assert outcome.cost is not None
    assert {figure.name for figure in outcome.cost.figures} == {
        "flops", "parameters", "regrouped", "collectives", "collective_bytes", "memory_traffic",
    }  # fmt: skip
    assert column_cells(outcome.cost)[1::2] == ("--", "--")
    text = str(cost_section(outcome.cost))
    for words in ("launches", "at the peak", "parameters:", "memory at its peak"):
        assert words not in text
    assert outcome_from_json(outcome_to_json(outcome)).cost == outcome.cost


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_what_a_framework_counts_may_not_lack(framework: str):
    record = cost_record(framework=framework)
    checked_cost(record)
    del record["stages"][0]["launches"]
    with pytest.raises(DecodeError, match=r"stages\[0\].launches: missing"):
        checked_cost(record)


def outcome_of(before: CostRecord | None, now: CostRecord) -> Outcome:
    cost = cost_comparison(before, now)
    findings = cost_findings(cost, against="the baseline")
    return Outcome(case=CASE, judgement=judgement_by(findings), cost=cost)


CHANGED = outcome_of(cost_record(), cost_record(extra_product))


def test_the_terminal_has_the_figures_that_changed():
    assert terminal_lines([CHANGED], verbose=False) == [
        "",
        f"{CASE.id}: its cost",
        "  figure                before        now  change",
        "  FLOPs in bfloat16  834 GFLOP  898 GFLOP  +7.7 %",
        "  launches                 451        483  +7.1 %",
    ]


def test_the_table_of_a_session_has_columns_of_costs():
    heading, row = (line.plain.split() for line in table([CHANGED], 200))
    assert heading == ["case", "FLOPs", "launches", "collectives", "peak", "memory", "verdict"]
    assert row == [CASE.id, "898", "GFLOP", "483", "64", "7.916", "GiB", "regressed"]
    narrow = [line.plain for line in table([CHANGED], 60)]
    assert any("a wider terminal shows" in line for line in narrow)


def test_of_a_first_cost_it_has_a_line():
    assert terminal_lines([outcome_of(None, cost_record())], verbose=False) == [
        f"cost: {CASE.id}: 64 collectives, 427.2 MiB collective traffic, 834 GFLOP in bfloat16, "
        "7.916 GiB peak memory, 451 launches (activations 5.588 GiB, parameters 1.863 GiB, "
        "gradients 476.8 MiB)"
    ]


def test_a_comment_has_them_as_a_table():
    text = pull_request.render([CHANGED])
    assert "| FLOPs in bfloat16 | 834 GFLOP | 898 GFLOP | +7.7 % |" in text.replace("\\", "")


def test_a_page_has_both_costs_by_module():
    page = cost_section(CHANGED.cost)
    assert page.count('class="icicle"') == 2
    assert "mlp: 576 GFLOP to 640 GFLOP (+64 GFLOP)" in page
    assert "the FLOPs of operators by module" in page
    assert cost_section(None) == ""


def test_a_cost_survives_a_results_file():
    assert outcome_from_json(outcome_to_json(CHANGED)).cost == CHANGED.cost


PREDICTED = PredictedTime(
    device="h100",
    step_ms=12.34,
    before_ms=10.0,
    products_ms=8.0,
    memory_ms=4.0,
    collectives_ms=1.0,
    exposed_ms=0.34,
    errors=(
        PredictionError(case_id="a", machine_class="1x-h", predicted_ms=5, measured_ms=10),
        PredictionError(case_id="b", machine_class="1x-h", predicted_ms=9, measured_ms=10),
    ),
    unchecked=3,
)


def test_a_predicted_time_has_its_error_beside_it():
    assert CHANGED.cost is not None
    cost = replace(CHANGED.cost, predicted=PREDICTED)
    outcome = replace(CHANGED, cost=cost)
    words = (
        "12.3 ms a step on h100 by its data sheet, not judged, 10 ms before (products 8 ms, "
        "memory 4 ms, collectives 1 ms, of which 0.34 ms hide behind nothing)"
    )
    error = (
        "of 2 measured baselines of h100 the same prediction is wrong by -50.0 % to -10.0 %; 3 "
        "more have no stored cost"
    )
    line = terminal_lines([outcome], verbose=False)[-1]
    assert line == f"predicted: {CASE.id}: {words}; {error}"
    page = cost_section(cost)
    assert f"Predicted: {words}." in page
    assert f"{error}." in page
    assert "Measured baselines of h100" in page
    assert outcome_from_json(outcome_to_json(outcome)).cost == cost


def test_a_prediction_that_nothing_measured_shows_says_so():
    alone = replace(PREDICTED, errors=(), unchecked=0)
    assert error_words(alone) == "how wrong this is on h100, no measured baseline shows"
    refused = PredictedTime(device="v100", problem="v100 has no peak in bfloat16")
    assert predicted_words(refused) == "no time is predicted: v100 has no peak in bfloat16"
