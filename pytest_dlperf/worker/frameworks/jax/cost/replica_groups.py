"""The ranks of a collective: those of its group that rank 0 is in."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

#: ``[2,4]<=[8]``, ``[4,2]<=[2,4]T(1,0)``: numbers from 0 in a shape, turned, in groups.
_IOTA: Final = re.compile(r"\[\d+,(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
#: ``mesh['a'=2,'b'=4] {'b'}``: the axes of a mesh that a group goes along.
_MESH: Final = re.compile(r"mesh\[(.*?)\](?:, device_ids=\((.*?)\))? ?\{(.*?)\}")
_AXIS: Final = re.compile(r"['\"]?([\w.\-]+)['\"]?=(\d+)")
#: ``'b':(2)4``: a part of an axis, after parts of 2 in all.
_PART: Final = re.compile(r"['\"]?([\w.\-]+)['\"]?(?::\((\d+)\)(\d+))?")


def group_of_first(text: str, world_size: int) -> tuple[int, ...]:
    """Return the ranks of the group that rank 0 is in, as a program of XLA writes groups.

    Empty braces are one group of all. Raises ``ValueError`` for a form that is not known.
    """
    groups = _groups(text.strip(), world_size)
    return next((tuple(group) for group in groups if 0 in group), (0,))


def chain_of_first(text: str) -> tuple[int, ...]:
    """Return the ranks that a permutation joins with rank 0, from pairs: ``{{0,1},{1,2}}``."""
    pairs = [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", text)]
    joined = {0}
    while more := {rank for pair in pairs if joined.intersection(pair) for rank in pair} - joined:
        joined |= more
    return tuple(sorted(joined))


def mesh_axis_of(ranks: Sequence[int], axes: Mapping[str, int]) -> str:
    """Return the axis of a mesh of all ranks that goes through ``ranks`` from 0; empty if none."""
    apart = math.prod(axes.values())
    for name, length in axes.items():
        apart //= length
        if sorted(ranks) == [apart * index for index in range(length)]:
            return name
    return ""


def _groups(text: str, world_size: int) -> list[list[int]]:
    if text in {"", "{}", "{{}}"}:
        return [list(range(world_size))]
    iota = _IOTA.fullmatch(text)
    if iota is not None:
        shape, order = _numbers(iota[2]), _numbers(iota[3] or "")
        return _in_groups(_turned(shape, order or range(len(shape))), int(iota[1]))
    mesh = _MESH.fullmatch(text)
    if mesh is not None:
        return _groups_of_mesh(mesh[1], mesh[2], mesh[3])
    if re.fullmatch(r"\{(\{[\d,\s]*\},?\s*)+\}", text):
        return [_numbers(group) for group in re.findall(r"\{([\d,\s]+)\}", text)]
    raise ValueError(f"the groups of a collective are in a form that is not known here: {text}")


def _groups_of_mesh(shape: str, ids: str | None, along: str) -> list[list[int]]:
    lengths = {name: int(length) for name, length in _AXIS.findall(shape)}
    parts = [
        (name, int(before or 1), int(length or lengths[name]))
        for name, before, length in _PART.findall(along)
    ]
    # Each axis is cut into what comes before a part, the part, and what comes after it
    cut: list[tuple[int, bool]] = []
    for name, length in lengths.items():
        begin = 1
        for _, before, part in sorted(p for p in parts if p[0] == name):
            cut += [(before // begin, False), (part, True)]
            begin = before * part
        cut.append((length // begin, False))
    grouped = [axis for axis, (_, is_along) in enumerate(cut) if is_along]
    across = [axis for axis, (_, is_along) in enumerate(cut) if not is_along]
    ranks = _turned([length for length, _ in cut], [*across, *grouped])
    if ids:
        numbers = _numbers(ids)
        ranks = [numbers[rank] for rank in ranks]
    return _in_groups(ranks, math.prod(cut[axis][0] for axis in grouped))


def _turned(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return the numbers from 0 in an array of ``shape`` after its axes are in ``order``."""
    apart = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    indices = itertools.product(*(range(shape[axis]) for axis in order))
    return [
        sum(index * apart[axis] for index, axis in zip(each, order, strict=True))
        for each in indices
    ]


def _in_groups(ranks: Sequence[int], size: int) -> list[list[int]]:
    return [list(ranks[begin : begin + size]) for begin in range(0, len(ranks), size)]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
