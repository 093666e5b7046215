"""What ``dlperf history show`` says of the parts of steps that were profiled."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pytest_dlperf.core.cost import COST_CLASS
from pytest_dlperf.core.outcome import Explanation, Outcome, PartChange
from pytest_dlperf.judge.cost import cost_comparison, cost_findings
from pytest_dlperf.judge.verdict import judgement_by
from pytest_dlperf.store.history.address import Address
from pytest_dlperf.store.history.append import append
from tests.helpers.costs import LAYERS, PRODUCT_FLOPS, cost_record, operator_in
from tests.helpers.history_builders import case, outcome, text

CASE = case().id


def explained(day: int, compute: float, python: float, before: float | None = None) -> Outcome:
    parts = (
        PartChange(part="compute", before_ms=before, after_ms=compute, difference_ms=None,
                   share=None, named=False),
        PartChange(part="Python", before_ms=before, after_ms=python, difference_ms=None,
                   share=None, named=False),
    )  # fmt: skip
    explanation = Explanation(
        sentence=f"day {day}",
        before_ms=None if before is None else 2 * before,
        after_ms=compute + python,
        parts=parts,
    )
    return replace(outcome(day), explanation=explanation)


def test_parts_are_beside_each_other_and_what_grew_is_first(here: Address, capsys: Any):
    append(
        here, "s", [explained(0, 50, 5), outcome(1), explained(2, 51, 25), explained(3, 52, 45)]
    )
    lines = [" ".join(line.split()) for line in text(capsys, "show", CASE).splitlines()]
    assert lines[0].startswith(f"{CASE} on ")
    assert lines[1].startswith("ms a profiled step")
    assert lines[1].endswith("grew by")
    assert lines[2:5] == [
        "Python 5.00 25.00 45.00 +40.00",
        "compute 50.00 51.00 52.00 +2.00",
        "step 55.00 76.00 97.00 +42.00",
    ]
    assert sum("day " in line for line in lines) == 3
    lines = text(capsys, "show", CASE, "--last=2").splitlines()
    assert "+20.00" in lines[2]


def test_each_series_has_its_own_newest_outcomes(here: Address, capsys: Any):
    def on(node: str, day: int, compute: float) -> Outcome:
        shown = explained(day, compute, 5)
        assert shown.environment is not None
        assert shown.measurement is not None
        runs = tuple(
            replace(run, ranks=tuple(replace(rank, node=node) for rank in run.ranks))
            for run in shown.measurement.runs
        )
        return replace(
            shown,
            environment=replace(shown.environment, node=node),
            measurement=replace(shown.measurement, runs=runs),
        )

    append(here, "s", [on("n1", 0, 50), on("n1", 1, 60), on("n2", 2, 10), on("n2", 3, 14)])
    told = " ".join(text(capsys, "show", "*", "--last=2").split())
    assert told.count(f"{CASE} on ") == 2
    assert "compute 50.00 60.00 +10.00" in told
    assert "compute 10.00 14.00 +4.00" in told


def test_what_the_oldest_was_compared_with_comes_before_it(here: Address, capsys: Any):
    append(here, "s", [explained(0, 50, 5, before=4)])
    lines = [" ".join(line.split()) for line in text(capsys, "show", CASE).splitlines()]
    assert "before" in lines[1]
    assert lines[2] == "compute 4.00 50.00 +46.00"


def counted(day: int, node: str, products: int) -> Outcome:
    def change(stage: dict[str, Any]) -> None:
        operator_in(stage, "blocks.*.mlp").update(
            calls=products * LAYERS, flops=products * LAYERS * PRODUCT_FLOPS
        )

    cost = cost_comparison(cost_record(), cost_record(change))
    judgement = judgement_by(cost_findings(cost, against="the baseline"))
    traced = outcome(day, node=node)
    assert traced.environment is not None
    environment = replace(traced.environment, machine_class=COST_CLASS)
    return replace(
        traced, measurement=None, environment=environment, judgement=judgement, cost=cost
    )


def test_figures_of_a_cost_are_one_series_whatever_node_traced_them(here: Address, capsys: Any):
    costs = [counted(0, "runner-1", 3), counted(1, "runner-2", 3), counted(2, "runner-3", 4)]
    append(here, "s", [*costs, outcome(3)])
    lines = [" ".join(line.split()) for line in text(capsys, "show", CASE).splitlines()]
    assert [line for line in lines if line.startswith(CASE)] == [f"{CASE} on cost"]
    rows = {line.split(" ")[0]: line for line in lines}
    assert rows["launches"] == "launches 451 451 483 +32"
    assert rows["FLOPs"].endswith("+64 GFLOP")
    assert "regressed: blocks.*.mlp: 3 to 4 mm a layer" in " ".join(lines)
    assert "graph breaks" not in " ".join(lines)
    [_, _, last] = json.loads(text(capsys, "show", CASE, "--json"))["counted"]
    assert {f["name"]: f["now"] for f in last["figures"]}["launches"] == 483


def test_without_profiles_it_says_how_to_have_them(here: Address, capsys: Any):
    append(here, "s", [outcome(0)])
    assert "--dlperf-explain=always" in text(capsys, "show", CASE)


def test_as_json(here: Address, capsys: Any):
    append(here, "s", [explained(0, 50, 5)])
    values = json.loads(text(capsys, "show", CASE, "--json"))
    [one] = values["explained"]
    assert (one["case_id"], one["after_ms"]) == (CASE, 55)
    assert [part["part"] for part in one["parts"]] == ["compute", "Python"]
