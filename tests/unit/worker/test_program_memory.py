"""The bytes that a program of XLA holds at once: donation, loops, recomputed values, order."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.wire_cost import MemoryCost
from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import parsed
from pytest_dlperf.worker.frameworks.jax.cost.memory import memory_of
from pytest_dlperf.worker.frameworks.jax.cost.places import HloPlaces


def memory(program: str, *donated: bool) -> MemoryCost:
    module = parsed(f"HloModule jit_train\n{program}")
    return memory_of(module, HloPlaces(module, Places()), donated)


UPDATE = """
ENTRY %main (p: f32[1000], g: f32[1000]) -> f32[1000] {
  %p = f32[1000]{0} parameter(0)
  %g = f32[1000]{0} parameter(1)
  %s = f32[1000]{0} multiply(%g, %g)
  ROOT %n = f32[1000]{0} subtract(%p, %s)
}
"""


@pytest.mark.parametrize(
    ("donated", "arguments", "outputs", "temporaries"),
    [
        ((False, False), 8000, 4000, 0),
        ((True, False), 8000, 0, 4000),
        ((True, True), 8000, 0, 0),
    ],
)
def test_an_update_is_in_the_memory_of_what_is_donated(
    donated: tuple[bool, bool], arguments: int, outputs: int, temporaries: int
):
    assert memory(UPDATE, *donated)["by_kind"] == {
        "arguments": arguments, "outputs": outputs, "temporaries": temporaries,
    }  # fmt: skip


def test_tokens_of_effects_come_before_what_is_donated():
    program = UPDATE.replace("parameter(1)", "parameter(2)").replace(
        "parameter(0)", "parameter(1)"
    )
    program = program.replace("  %p =", "  %token = pred[0]{0} parameter(0)\n  %p =", 1)
    assert memory(program, True, True) == memory(UPDATE, True, True)


def test_a_product_is_in_memory_of_its_own():
    product = UPDATE.replace("multiply(", "dot(").replace("subtract(", "dot(")
    assert memory(product, True, True)["peak_bytes"] == 12000


CASTS = """
ENTRY %main (x: bf16[10], v: f32[1000], w: f32[1000]) -> bf16[10] {
  %x = bf16[10]{0} parameter(0)
  %v = f32[1000]{0} parameter(1)
  %w = f32[1000]{0} parameter(2)
  %cv = bf16[1000]{0} convert(%v), metadata={op_name="jit(train)/first/convert"}
  %cw = bf16[1000]{0} convert(%w), metadata={op_name="jit(train)/second/convert"}
  %y = bf16[10]{0} dot(%x, %cv)
  ROOT %z = bf16[10]{0} dot(%y, %cw)
}
"""


def test_a_cast_of_a_parameter_is_made_when_it_is_read():
    held = memory(CASTS, False, False, False)
    # One of both casts, what it is multiplied with, and the result
    assert held["peak_bytes"] == 20 + 8000 + 2000 + 20 + 20
    assert {live["path"] for live in held["at_peak"]} == {"", "second"}
    # Whatever the order in which they are written
    lines = CASTS.splitlines()
    lines[5], lines[6] = lines[6], lines[5]
    assert memory("\n".join(lines), False, False, False) == held


LOOP = """
%body (a: (s32[], f32[10], f32[3,10], f32[10])) -> (s32[], f32[10], f32[3,10], f32[10]) {
  %a = (s32[], f32[10]{0}, f32[3,10]{1,0}, f32[10]{0}) parameter(0)
  %i = s32[] get-tuple-element(%a), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %x = f32[10]{0} get-tuple-element(%a), index=1
  %all = f32[3,10]{1,0} get-tuple-element(%a), index=2
  %w = f32[10]{0} get-tuple-element(%a), index=3
  %y = f32[10]{0} dot(%x, %w), metadata={op_name="jit(train)/block/while/body/dot"}
  %row = f32[1,10]{1,0} reshape(%y)
  %zero = s32[] constant(0)
  %put = f32[3,10]{1,0} dynamic-update-slice(%all, %row, %i, %zero)
  ROOT %t = (s32[], f32[10]{0}, f32[3,10]{1,0}, f32[10]{0}) tuple(%next, %y, %put, %w)
}

%condition (b: (s32[], f32[10], f32[3,10], f32[10])) -> pred[] {
  %b = (s32[], f32[10]{0}, f32[3,10]{1,0}, f32[10]{0}) parameter(0)
  %j = s32[] get-tuple-element(%b), index=0
  %end = s32[] constant(3)
  ROOT %lt = pred[] compare(%j, %end), direction=LT
}

ENTRY %main (p: f32[10], q: f32[10]) -> f32[3,10] {
  %p = f32[10]{0} parameter(0)
  %q = f32[10]{0} parameter(1)
  %begin = s32[] constant(0)
  %none = f32[] constant(0)
  %empty = f32[3,10]{1,0} broadcast(%none), dimensions={}
  %given = (s32[], f32[10]{0}, f32[3,10]{1,0}, f32[10]{0}) tuple(%begin, %p, %empty, %q)
  %loop = (s32[], f32[10]{0}, f32[3,10]{1,0}, f32[10]{0}) while(%given), condition=%condition, body=%body
  ROOT %out = f32[3,10]{1,0} get-tuple-element(%loop), index=2
}
"""  # noqa: E501


def test_a_loop_writes_into_its_state_and_copies_nothing_that_it_only_reads():
    held = memory(LOOP, False, False)
    # The state without the weights; in a round the next number and row beside those before
    assert held["by_kind"] == {"arguments": 80, "outputs": 120, "temporaries": 2 * 4 + 2 * 40}
    assert {"path": "block", "kind": "temporaries", "bytes": 40} in held["at_peak"]


RECOMPUTED = """
ENTRY %main (x: f32[100], g: f32[1]) -> f32[100] {
  %x = f32[100]{0} parameter(0)
  %g = f32[1]{0} parameter(1)
  %first = f32[1000]{0} exponential(%x)
  %loss = f32[1]{0} reduce(%first)
  %ct = f32[1]{0} multiply(%loss, %g)
  %held = (f32[100]{0}, f32[1]{0}) tuple(%x, %ct)
  %barrier = (f32[100]{0}, f32[1]{0}) opt-barrier(%held)
  %x2 = f32[100]{0} get-tuple-element(%barrier), index=0
  %ct2 = f32[1]{0} get-tuple-element(%barrier), index=1
  %second = f32[1000]{0} exponential(%x2)
  ROOT %dx = f32[100]{0} dot(%second, %ct2)
}
"""


def test_what_is_recomputed_is_not_held_meanwhile():
    assert memory(RECOMPUTED, False, False)["peak_bytes"] == 400 + 4 + 4000 + 4 + 400


BRANCHES = """
%small (r: f32[10]) -> f32[10] {
  ROOT %r = f32[10]{0} parameter(0)
}

%large (s: f32[10]) -> f32[10] {
  %s = f32[10]{0} parameter(0)
  %many = f32[1000]{0} dot(%s, %s)
  ROOT %few = f32[10]{0} dot(%many, %s)
}

ENTRY %main (which: s32[], a: f32[10]) -> f32[10] {
  %which = s32[] parameter(0)
  %a = f32[10]{0} parameter(1)
  ROOT %z = f32[10]{0} conditional(%which, %a, %a), branch_computations={%small, %large}
}
"""


def test_of_branches_that_which_holds_most_counts():
    assert memory(BRANCHES, False, False)["peak_bytes"] == 4 + 40 + 4000 + 40
