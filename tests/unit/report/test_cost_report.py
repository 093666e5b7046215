"""What the terminal, a comment and a page say of the cost of a step."""

from __future__ import annotations

from typing import Any

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.outcome import Outcome, outcome_from_json, outcome_to_json
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.judge.cost import cost_comparison, cost_findings
from pytest_dlperf.judge.verdict import judgement_by
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.cost import terminal_lines
from pytest_dlperf.report.page.cost_section import cost_section
from tests.helpers.costs import LAYERS, PRODUCT_FLOPS, cost_record, operator_in

[CASE] = expand(suite="net", workload="w:build", batch_size_per_device=4, layout="1n8g")


def extra_product(stage: dict[str, Any]) -> None:
    operator_in(stage, "blocks.*.mlp").update(calls=4 * LAYERS, flops=4 * LAYERS * PRODUCT_FLOPS)


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
