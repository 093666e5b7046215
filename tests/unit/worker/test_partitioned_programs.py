"""Programs of XLA as text: loops, products, groups of ranks, and the names of operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.frameworks.jax.cost.counts import Counts
from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import Array, parsed
from pytest_dlperf.worker.frameworks.jax.cost.memory import memory_of
from pytest_dlperf.worker.frameworks.jax.cost.places import HloPlaces, phase_of, scopes_of
from pytest_dlperf.worker.frameworks.jax.cost.replica_groups import (
    chain_of_first,
    group_of_first,
    mesh_axis_of,
)

#: A loop of 3 rounds around a product, a gather and a call; then a convolution of a cond's longer
#: branch.
PROGRAM = """
HloModule jit_train, num_partitions=4

FileNames
1 "/home/me/train.py"

FunctionNames
1 "<module>"
2 "train.<locals>.mlp"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=0 end_column=9}
2 {file_name_id=1 function_name_id=2 line=3 end_line=3 column=0 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%inner (p.9: f32[8,4]) -> f32[8,4] {
  %p.9 = f32[8,4]{1,0} parameter(0)
  ROOT %n = f32[8,4]{1,0} negate(%p.9), metadata={op_name="jit(act)/neg" stack_frame_id=2}
}

%body (p: (s32[], bf16[8,4])) -> (s32[], bf16[8,4]) {
  %p = (s32[], bf16[8,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %x = bf16[8,4]{1,0} get-tuple-element(%p), index=1
  %w = bf16[1,4]{1,0} constant({...})
  %all-gather = bf16[4,4]{1,0} all-gather(%w), channel_id=1, replica_groups=mesh['x'=4] {'x'}, dimensions={0}, metadata={op_name="jit(train)/jvp(blocks)/while/body/mlp/dot_general" stack_frame_id=2}
  %dot = bf16[8,4]{1,0} dot(%x, %all-gather), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(train)/jvp(blocks)/while/body/mlp/dot_general" stack_frame_id=2}
  %wide = f32[8,4]{1,0} convert(%dot)
  %called = f32[8,4]{1,0} call(%wide), to_apply=%inner, metadata={op_name="jit(train)/transpose(jvp())/while/body/closed_call" stack_frame_id=2}
  %short = bf16[8,4]{1,0} convert(%called)
  ROOT %t = (s32[], bf16[8,4]{1,0}) tuple(%next, %short)
}

%condition (q: (s32[], bf16[8,4])) -> pred[] {
  %q = (s32[], bf16[8,4]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %end = s32[] constant(CONSTANT)
  ROOT %lt = pred[] compare(%j, %end), direction=LT
}

%plain (r: f32[2,9,9,4]) -> f32[2,7,7,6] {
  %r = f32[2,9,9,4]{3,2,1,0} parameter(0)
  %zero = f32[] constant(0)
  ROOT %zeros = f32[2,7,7,6]{3,2,1,0} broadcast(%zero), dimensions={}
}

%conv (s: f32[2,9,9,4]) -> f32[2,7,7,6] {
  %s = f32[2,9,9,4]{3,2,1,0} parameter(0)
  %k = f32[3,3,4,6]{3,2,1,0} constant({...})
  ROOT %c = f32[2,7,7,6]{3,2,1,0} convolution(%s, %k), window={size=3x3}, dim_labels=b01f_01io->b01f, operand_precision={highest,highest}
}

ENTRY %main (a: bf16[8,4], b: f32[2,9,9,4], k: s32[]) -> (bf16[8,4], f32[2,7,7,6]) {
  %a = bf16[8,4]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="a, with \\"quotes\\" {"}
  %b = f32[2,9,9,4]{3,2,1,0} parameter(1)
  %which = s32[] parameter(2)
  %begin = s32[] constant(0)
  %given = (s32[], bf16[8,4]{1,0}) tuple(%begin, %a)
  %loop = (s32[], /*index=1*/bf16[8,4]{1,0}) while(%given), condition=%condition, body=%body
  %y = bf16[8,4]{1,0} get-tuple-element(%loop), index=1
  %z = f32[2,7,7,6]{3,2,1,0} conditional(%which, %b, %b), branch_computations={%plain, %conv}
  ROOT %out = (bf16[8,4]{1,0}, f32[2,7,7,6]{3,2,1,0}) tuple(%y, %z)
}
"""  # noqa: E501


def counted(rounds: str = "3") -> Counts:
    counts = Counts(4, Places("/home/me/train.py"), on_gpu=True, axes={"dp": 4})
    counts.add(parsed(PROGRAM.replace("CONSTANT", rounds)))
    return counts


def test_rounds_of_a_loop_count_and_of_branches_the_longer_one():
    counts = counted()
    convolution = 2 * (2 * 7 * 7 * 6) * (3 * 3 * 4)
    assert counts.flops() == {"bfloat16": 3 * 2 * 8 * 4 * 4, "float32": convolution}
    [gather] = counts.collectives
    assert gather == {
        "kind": "all-gather", "group": "dp", "ranks": 4, "spread": "4 ranks, 1 apart", "span": 4,
        "dtype": "bfloat16", "bytes": 2 * 16, "calls": 3, "path": "blocks.mlp", "phase": "forward",
    }  # fmt: skip
    assert not counts.unknown_loops


def test_a_call_goes_on_with_the_name_of_its_caller_and_a_function_names_what_has_no_scope():
    [negated] = [o for o in counted().operators() if o["name"] == "negate"]
    assert (negated["path"], negated["phase"]) == ("train.mlp", "backward")
    assert (negated["calls"], negated["read_bytes"]) == (3, 3 * 8 * 4 * 4)
    assert negated["shapes"] == "8x4 float32"


def test_where_a_line_is_known_and_no_function_the_file_names_it(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text("def outer():\n    def mlp(x):\n        return -x\n    return mlp\ny = 1\n")
    places = HloPlaces(parsed(PROGRAM), Places(str(file)))
    for line, function in ((3, "model.mlp"), (4, "model.outer"), (5, "")):
        text = f'  n = f32[] negate(x), metadata={{op_name="jit(f)/neg" source_file="{file}" source_line={line}}}'  # noqa: E501
        module = parsed(f"ENTRY main {{\n  x = f32[] parameter(0)\n{text}\n}}")
        assert places.place_of(module.computations["main"].instructions["n"]) == (function, "rest")


def test_what_says_only_how_an_array_is_placed_costs_nothing():
    call = '%placed = f32[8,4]{1,0} custom-call(%p.9), custom_call_target="Sharding"'
    text = PROGRAM.replace("negate(%p.9)", "negate(%placed)").replace(
        "ROOT %n", f"{call}\n  ROOT %n"
    )
    plain, annotated = (parsed(each.replace("CONSTANT", "3")) for each in (PROGRAM, text))
    assert len(annotated.computations["inner"].instructions) == 3
    places = Places("/home/me/train.py")
    counts = counted()
    with_annotation = Counts(4, places, on_gpu=True, axes={})
    with_annotation.add(annotated)
    assert with_annotation.operators() == counts.operators()
    assert memory_of(annotated, HloPlaces(annotated, places), [False] * 3) == memory_of(
        plain, HloPlaces(plain, places), [False] * 3
    )


def test_what_counts_the_rounds_is_no_operator():
    assert "add" not in {operator["name"] for operator in counted().operators()}


def test_rounds_that_are_no_constant_count_once():
    counts = counted("nan")
    assert counts.flops()["bfloat16"] == 2 * 8 * 4 * 4
    assert len(counts.unknown_loops) == 1


def test_a_bracket_in_a_name_closes_nothing():
    entry = parsed(PROGRAM).computations["main"]
    assert entry.instructions["a"].arrays == (Array("bfloat16", (8, 4)),)
    assert entry.instructions["loop"].operands == ("given",)


def test_a_text_without_an_entry_is_an_error():
    with pytest.raises(ValueError, match="in a form that is not known here"):
        parsed("HloModule empty")


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("{{0,1},{2,3}}", (0, 1)),
        ("{{1,3},{0,2}}", (0, 2)),
        ("{{0,1,2,3,4,5,6,7}}", tuple(range(8))),
        ("{}", tuple(range(8))),
        ("", tuple(range(8))),
        ("[2,4]<=[8]", (0, 1, 2, 3)),
        ("[4,2]<=[2,4]T(1,0)", (0, 4)),
        ("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'a'}", (1, 0)),
        ("mesh['a'=2,'b'=4] {'b'}", (0, 1, 2, 3)),
        ("mesh['a'=2,'b'=4] {'a'}", (0, 4)),
        ("mesh['a'=2,'b'=4] {'a','b'}", tuple(range(8))),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", (0, 2)),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", (0, 1)),
        ("mesh['a'=8,'b'=1] {'b'}", (0,)),
    ],
)
def test_group_of_the_first_rank_is_read_in_each_form(text: str, ranks: tuple[int, ...]):
    assert group_of_first(text, 8) == ranks


def test_groups_in_another_form_are_an_error_that_quotes_them():
    with pytest.raises(ValueError, match="not known here: @groups"):
        group_of_first("@groups", 8)


def test_ranks_that_a_permutation_joins():
    assert chain_of_first("{{0,1},{1,2},{2,3},{3,0}}") == (0, 1, 2, 3)
    assert chain_of_first("{{0,2},{1,3},{2,0},{3,1}}") == (0, 2)


def test_an_axis_is_named_by_the_ranks_that_it_goes_through():
    axes = {"dp": 4, "tp": 2}
    assert mesh_axis_of((0, 1), axes) == "tp"
    assert mesh_axis_of((0, 2, 4, 6), axes) == "dp"
    assert mesh_axis_of(range(8), axes) == ""
    assert mesh_axis_of((0, 1), {}) == ""


@pytest.mark.parametrize(
    ("name", "scopes", "phase"),
    [
        ("jit(train)/jvp(blocks)/while/body/closed_call/mlp/dot_general", ["blocks", "mlp"],
         "forward"),
        ("jit(train)/transpose(jvp(blocks.3/mlp))/dot_general", ["blocks", "3", "mlp"],
         "backward"),
        ("jit(train)/jvp()/jit(silu)/mul", [], "forward"),
        ("jit(train)/jit(_einsum)/BTNH,BSNH->BNTS/dot_general", [], "rest"),
        ("jit(train)/vmap(jvp(head))/cond/branch_1_fun/add", ["head"], "forward"),
        ("jit(train)/sub", [], "rest"),
        ("", [], "rest"),
    ],
)  # fmt: skip
def test_scopes_and_phases_are_in_the_name_of_an_operation(
    name: str, scopes: list[str], phase: str
):
    assert scopes_of(name) == scopes
    assert phase_of(name) == phase
