"""The ranks of a collective: those of its group that rank 0 is in."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

#: ``[2,4]<=[8]``, ``[4,2]<=[2,4]T(1,0)``: numbers from 0 in a shape, turned, in groups.
_IOTA: Final = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
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
    numbers = np.arange(math.prod(axes.values())).reshape(tuple(axes.values()))
    for position, name in enumerate(axes):
        index: list[Any] = [0] * len(axes)
        index[position] = slice(None)
        if sorted(ranks) == numbers[tuple(index)].tolist():
            return name
    return ""


def _groups(text: str, world_size: int) -> list[list[int]]:
    if text in {"", "{}", "{{}}"}:
        return [list(range(world_size))]
    iota = _IOTA.fullmatch(text)
    if iota is not None:
        shape, order = _numbers(iota[2]), _numbers(iota[3] or "")
        numbers = np.arange(math.prod(shape)).reshape(shape)
        groups: list[list[int]] = (
            numbers.transpose(order or range(len(shape))).reshape(_numbers(iota[1])).tolist()
        )
        return groups
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
    numbers = np.array(_numbers(ids)) if ids else np.arange(math.prod(lengths.values()))
    grouped = [axis for axis, (_, is_along) in enumerate(cut) if is_along]
    others = [axis for axis, (_, is_along) in enumerate(cut) if not is_along]
    size = math.prod(cut[axis][0] for axis in grouped)
    groups: list[list[int]] = (
        numbers.reshape([length for length, _ in cut])
        .transpose(list(itertools.chain(others, grouped)))
        .reshape(-1, size)
        .tolist()
    )
    return groups


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
