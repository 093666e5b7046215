"""Two costs of a step: what is more is found, with its module, and nothing else is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.cost import COST_FIGURES, CostComparison, allowances_of
from pytest_dlperf.core.cost_record import checked_cost
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.judge.cost import cost_comparison, cost_findings, differing_conditions
from pytest_dlperf.judge.verdict import judgement_by
from tests.helpers.costs import LAYERS, PRODUCT_FLOPS, cost_record, operator, operator_in

Change = Callable[[dict[str, Any]], object]


def judged(before: CostRecord, now: CostRecord, cost: Any = None) -> Judgement:
    gates = () if cost is None else allowances_of(cost)
    comparison = cost_comparison(before, now, gates)
    return judgement_by(cost_findings(comparison, against="the baseline"))


def changed(change: Change, cost: Any = None) -> Judgement:
    return judged(cost_record(), cost_record(change), cost)


def add_products(stage: dict[str, Any], path: str, *products: tuple[str, str, int]) -> None:
    """Add so many products of a name and a phase to each layer."""
    for name, phase, count in products:
        calls = count * LAYERS
        stage["operators"].append(
            operator(path, name, phase=phase, calls=calls, flops=calls * PRODUCT_FLOPS)
        )


def metrics(judgement: Judgement) -> set[str]:
    return {finding.metric for finding in judgement.findings if finding.metric}


#: Each figure, and what alone makes more of it.
INCREASES: dict[str, Callable[[dict[str, Any], int], object]] = {
    "host_waits": lambda s, n: s["host_waits"].append(
        {"place": "net.py:7", "what": ".item()", "count": n}
    ),
    "graph_breaks": lambda s, n: s["graph_breaks"].append(
        {"place": "net.py:9", "what": "print", "count": n}
    ),
    "recompilations": lambda s, n: s.update(recompilations=n),
    "collectives": lambda s, n: s["collectives"].append(
        {**s["collectives"][0], "calls": n, "bytes": 0}
    ),
    "collective_bytes": lambda s, n: s["collectives"][0].update(bytes=8_000_000 + n),
    "flops": lambda s, n: operator_in(s, "head").update(flops=PRODUCT_FLOPS + n),
    "parameters": lambda s, n: s["parameters"].update(bfloat16=1_000_000_000 + n),
    "peak_memory": lambda s, n: s["memory"]["at_peak"][0].update(bytes=6_000_000_000 + n),
    "launches": lambda s, n: s["operators"].append(
        operator("head", "add", calls=n, flops=0, flops_dtype="", read_bytes=0, written_bytes=0)
    ),
    "memory_traffic": lambda s, n: operator_in(s, "head").update(read_bytes=128_000_000 + n),
}


def test_each_figure_has_an_increase_here():
    # Other ranks are neither more nor less
    assert COST_FIGURES.keys() - INCREASES.keys() == {"regrouped"}


@settings(deadline=None)
@given(name=st.sampled_from(sorted(INCREASES)), count=st.integers(1, 10**12))
def test_one_increased_figure_is_found_and_nothing_else(name: str, count: int):
    found = changed(lambda stage: INCREASES[name](stage, count))
    assert (found.verdict, metrics(found)) == (Verdict.REGRESSED, {name})
    assert found.code == f"costs-more:{name}"
    lower = judged(cost_record(lambda stage: INCREASES[name](stage, count)), cost_record())
    assert (lower.verdict, metrics(lower)) == (Verdict.IMPROVED, {name})


TENSOR, DATA = ("tp", "8 ranks, 1 apart"), ("dp", "8 ranks, 8 apart")


def gather(group: tuple[str, str], size: int, path: str = "blocks.*", calls: int = 4) -> Any:
    name, spread = group
    return {
        "kind": "all-gather", "group": name, "ranks": 8, "spread": spread, "span": 8,
        "dtype": "bfloat16", "bytes": size, "calls": calls, "path": path, "phase": "forward",
        "overlapped": 0,
    }  # fmt: skip


def gathers(*collectives: Any) -> CostRecord:
    return cost_record(lambda stage: stage.update(collectives=list(collectives)))


@pytest.mark.parametrize(("was", "now"), [(TENSOR, DATA), (DATA, TENSOR)])
def test_a_gather_among_other_ranks_is_a_regression_that_names_both(was: Any, now: Any):
    found = judged(
        gathers(gather(was, 800), gather(DATA, 90)), gathers(gather(now, 800), gather(DATA, 90))
    )
    assert (found.verdict, metrics(found)) == (Verdict.REGRESSED, {"regrouped"})
    assert found.first_line.startswith(
        f"blocks.*: all-gather among {now[0]} ({now[1]}) in place of {was[0]} ({was[1]}), "
        "collectives among other ranks 0 to 4"
    )


def test_groups_that_swap_their_tensors_are_told():
    before = gathers(gather(TENSOR, 800), gather(DATA, 8))
    found = judged(before, gathers(gather(TENSOR, 8), gather(DATA, 800)))
    assert metrics(found) == {"regrouped"}


def test_a_group_of_another_name_or_a_moved_module_is_the_same():
    before = gathers(gather(TENSOR, 800))
    assert judged(before, gathers(gather(("model", TENSOR[1]), 800))).verdict is Verdict.PASSED
    assert judged(before, gathers(gather(TENSOR, 800, "layers.*"))).verdict is Verdict.PASSED


def test_one_more_or_larger_collective_of_its_group_is_of_no_other():
    before = gathers(gather(TENSOR, 800), gather(DATA, 80))
    more = judged(before, gathers(gather(TENSOR, 800), gather(DATA, 80), gather(DATA, 0)))
    assert metrics(more) == {"collectives"}
    larger = judged(before, gathers(gather(TENSOR, 880), gather(DATA, 80)))
    assert metrics(larger) == {"collective_bytes"}


def test_a_larger_tensor_among_other_ranks_is_both():
    found = judged(gathers(gather(TENSOR, 800)), gathers(gather(DATA, 880)))
    assert metrics(found) == {"regrouped", "collective_bytes"}


def test_an_allowance_is_of_all_collectives():
    both = gathers(gather(TENSOR, 800, calls=1), gather(DATA, 80, calls=3))
    now = gathers(gather(DATA, 800, calls=1), gather(DATA, 80, calls=3))
    assert judged(both, now, {"regrouped": "25%"}).verdict is Verdict.PASSED
    assert judged(both, now, {"regrouped": "24%"}).verdict is Verdict.REGRESSED


def test_collectives_that_changed_places_are_told_and_not_judged():
    first, second = gather(TENSOR, 800, "head"), gather(DATA, 80)
    before, now = gathers(first, second, first), gathers(first, first, second)
    assert judged(before, now).verdict is Verdict.PASSED
    [note] = cost_comparison(before, now).notes
    assert note.startswith(
        "Collectives start in another order than before, first all-gather of head where "
        "all-gather of blocks.* was"
    )
    # More of them is told by itself, and the order of a compiler is none of the program
    assert not cost_comparison(before, gathers(first, first, second, second)).notes
    assert not cost_comparison(before, before).notes
    for record in (before, now):
        record["framework"] = "jax"
    assert not cost_comparison(before, now).notes


@settings(deadline=None)
@given(order=st.permutations(range(6)), lines=st.integers(1, 500))
def test_equal_costs_pass_whatever_their_order_and_lines(order: list[int], lines: int):
    def reordered(stage: dict[str, Any]) -> None:
        stage["operators"] = [stage["operators"][index] for index in order]
        stage["host_waits"][0]["place"] = f"train.py:{lines}"

    found = changed(reordered)
    assert (found.verdict, found.codes) == (Verdict.PASSED, ("costs-same",))
    assert found.reason == "the same cost as the baseline"


def test_an_extra_product_is_named_with_its_module():
    def extra(stage: dict[str, Any]) -> None:
        operator_in(stage, "blocks.*.mlp").update(
            calls=4 * LAYERS, flops=4 * LAYERS * PRODUCT_FLOPS
        )

    found = changed(extra)
    first = found.first_line
    assert first.startswith("blocks.*.mlp: 3 to 4 mm a layer, +7.7 % FLOPs in bfloat16")
    assert metrics(found) == {"flops", "launches"}


def test_work_that_moves_is_no_more():
    def moved(stage: dict[str, Any]) -> None:
        operator_in(stage, "blocks.*.mlp")["path"] = "blocks.*.ffn"

    assert changed(moved).verdict is Verdict.PASSED


def test_beside_moved_work_the_added_one_is_named():
    def moved(stage: dict[str, Any]) -> None:
        operator_in(stage, "blocks.*.attention")["path"] = "blocks.*.mixer"
        head = operator_in(stage, "head")
        head.update(calls=2, flops=2 * PRODUCT_FLOPS)

    assert changed(moved).first_line.startswith("head: 1 to 2 mm, ")


def test_float32_that_is_left_in_a_layer_is_more():
    def widened(stage: dict[str, Any]) -> None:
        operator_in(stage, "head").update(
            flops_dtype="float32", shapes="4096x4096 float32, 4096x128 float32"
        )

    found = changed(widened)
    assert found.verdict is Verdict.REGRESSED
    assert metrics(found) == {"flops"}
    assert "head: " in found.first_line
    assert "FLOPs in float32" in found.first_line
    narrower = judged(cost_record(widened), cost_record())
    assert (narrower.verdict, metrics(narrower)) == (Verdict.IMPROVED, {"flops"})


def test_more_and_less_is_a_regression_that_says_both():
    def traded(stage: dict[str, Any]) -> None:
        stage["memory"]["at_peak"][0]["bytes"] -= 3_000_000_000
        operator_in(stage, "blocks.*.mlp", phase="backward").update(
            calls=9 * LAYERS, flops=9 * LAYERS * PRODUCT_FLOPS
        )

    found = changed(traded)
    assert found.verdict is Verdict.REGRESSED
    assert "6 to 9 mm a layer in the backward" in found.first_line
    assert "less: -35.3 % peak memory" in found.first_line


@pytest.mark.parametrize(
    ("backward", "words"),
    [(2, "blocks.*.up: 1 to 2 addmm a layer,"), (6, "blocks.*.up: 2 to 8 mm a layer in the ba")],
)
def test_the_forward_leads_where_its_backward_follows(backward: int, words: str):
    before, now = (
        cost_record(lambda stage, products=products, more=more: add_products(
            stage, "blocks.*.up", ("addmm", "forward", products), ("mm", "backward", more)
        ))
        for products, more in ((1, 2), (2, 2 + backward))
    )  # fmt: skip
    assert words in judged(before, now).first_line


@pytest.mark.parametrize("phase", ["optimizer", "rest"])
def test_the_forward_does_not_lead_where_what_is_no_backward_grew_most(phase: str):
    """As of a step outside of modules, whose loss and whose update have one path."""
    before, now = (
        cost_record(lambda stage, n=n: add_products(
            stage, "", ("bmm", "forward", 2 * n), ("addmm", phase, 3 * n)
        ))
        for n in (1, 2)
    )  # fmt: skip
    line = judged(before, now).first_line
    assert "addmm" in line
    assert "bmm" not in line


def test_an_allowance_lets_more_pass_up_to_it():
    def more(stage: dict[str, Any]) -> None:
        stage["memory"]["at_peak"][0]["bytes"] += 80_000_000  # of 8.5 GB

    found = changed(more, {"peak_memory": "1%"})
    assert found.verdict is Verdict.PASSED
    assert found.reason == "the same cost within its allowances as the baseline"
    assert "within the allowance of 1 %" in found.details[0]
    assert changed(more, {"peak_memory": "0.9%"}).verdict is Verdict.REGRESSED
    assert changed(more, {"launches": "50%"}).verdict is Verdict.REGRESSED


def test_an_unfused_optimizer_is_named_by_its_phase():
    def unfused(stage: dict[str, Any]) -> None:
        operator_in(stage, "", "_fused_adamw_", "optimizer").update(
            name="mul_", calls=600, read_bytes=64_000_000
        )

    found = changed(unfused)
    assert found.first_line.startswith("the optimizer: 0 to 600 mul_, +132.6 % launches")


@pytest.mark.parametrize(
    "value", ["peak_memory", {"speed": "1%"}, {"flops": True}, {"flops": "x"}]
)
def test_an_allowance_that_cannot_be_meant_is_refused(value: Any):
    with pytest.raises(UsageError, match="cost"):
        allowances_of(value)


def test_builds_of_one_version_are_compared_and_versions_are_not():
    now = cost_record(framework_version="2.13.0+cu128")
    assert differing_conditions(cost_record(), now) == ""
    newer = cost_record(framework_version="2.14.0")
    assert differing_conditions(cost_record(), newer) == "torch 2.13.0 then, torch 2.14.0 now"
    wider = cost_record(world_size=64)
    assert differing_conditions(cost_record(), wider) == "ranks 0 of 8 then, ranks 0 of 64 now"


def test_a_comparison_survives_json():
    comparison = cost_comparison(cost_record(), cost_record())
    assert decode(CostComparison, encode(comparison)) == comparison
    assert not cost_comparison(None, cost_record()).has_before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.pop("stages"), "stages: missing"),
        (lambda r: r.update(format=9), "format 9"),
        (lambda r: r["stages"].clear(), "stages: empty"),
        (lambda r: r["stages"][0].update(launches="9"), r"stages\[0\].launches: expected int"),
        (lambda r: r["stages"][0].pop("memory"), r"stages\[0\].memory: missing"),
        (lambda r: r["stages"][0].update(launches=-1), "below 0"),
    ],
)
def test_a_damaged_record_names_its_field(change: Callable[[Any], object], words: str):
    record = cost_record()
    assert checked_cost(record) is record
    change(record)
    with pytest.raises(DecodeError, match=words):
        checked_cost(record)


def test_a_record_of_a_problem_needs_nothing_else():
    assert checked_cost({"format": 1, "problem": "train.py:7 reads a value"})["problem"]
