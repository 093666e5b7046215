"""Words and anchors of a block are those of its lines, however few kinds of lines it has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dlperf.measure.logs.block import MOST_KINDS, Block
from pytest_dlperf.measure.logs.sieve import Sieve

pytestmark = pytest.mark.newest

_LINES = st.lists(st.text("ab019.,\n", max_size=12), max_size=40)


@given(_LINES, st.text("ab019.,\n", min_size=1, max_size=4), st.booleans())
def test_a_word_is_in_a_block_if_it_is_in_its_text(lines: list[str], word: str, ends: bool):
    text = ("\n".join(lines) + "\n" * ends).encode()
    assert (word.encode() in Block(text)) == (word.encode() in text)


@given(_LINES, st.lists(st.text("ab019.", min_size=1, max_size=3), min_size=1, max_size=3))
def test_lines_with_an_anchor_are_of_the_kinds_with_one(lines: list[str], anchors: list[str]):
    block = Block("".join(f"{line}\n" for line in lines).encode())
    kinds = block.kinds_with([anchor.encode() for anchor in anchors])
    found = {int(place) for of_kind in kinds.values() for place in of_kind.lines}
    have_one = {
        place
        for place, line in enumerate(block.decode().split("\n")[:-1])
        if any(anchor in line for anchor in anchors)
    }
    assert have_one <= found


@pytest.mark.parametrize("kinds", [3, 2 * MOST_KINDS])
@pytest.mark.parametrize("share", [2, 40])
def test_lines_with_an_anchor_pass_the_sieve(kinds: int, share: int):
    """Few or many of them, among lines of few or many kinds."""
    lines = [
        f"step {i} is done" if i % share == 0 else f"{'x' * (i % kinds)} of rank {i}"
        for i in range(4000)
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    half = text.index(b"\n", len(text) // 2) + 1
    passed = b"".join(Sieve((b"step",)).blocks([Block(text[:half]), Block(text[half:])]))
    assert [line for line in passed.split(b"\n") if b"step" in line] == [
        line for line in text.split(b"\n") if b"step" in line
    ]


def test_a_block_of_a_block_is_that_block():
    block = Block(b"a 1\n")
    assert Block(block) is block
