"""The order in which the instructions of a computation are taken to run.

A program of XLA has no order before a backend schedules it, and a schedule depends on the machine
that it is compiled for. This one follows from the program alone: what can be done is done, but
what would wait for its first reader with more bytes than it reads is done just before that, as a
copy of a parameter in another dtype.
"""

from __future__ import annotations

from pytest_dlperf.worker.frameworks.jax.cost.values import Value, Values


def order_of(values: Values) -> list[str]:
    """Return the names of the instructions that read values, each behind those that it reads."""
    names = list(values.read)
    turns = _earliest(values)
    apart = _apart(values)
    late: set[str] = set()
    for name in reversed(names):
        made = values.of[name]
        readers = {reader for value in made for reader in value.readers}
        if not readers or any(value.is_result for value in made):
            continue
        latest = min(turns[reader] for reader in readers) - 1
        held = {
            id(value): value.bytes
            for value in values.read[name]
            if not _is_free(value, values, apart) and _last_other(value, name, turns) < latest
        }
        if latest > turns[name] and sum(held.values()) < sum(value.bytes for value in made):
            turns[name] = latest
            late.add(name)
    return sorted(names, key=lambda name: (turns[name], name in late))


def _earliest(values: Values) -> dict[str, int]:
    """Return the first turn in which each instruction can be done."""
    turns: dict[str, int] = {}
    for name, read in values.read.items():
        turns[name] = 1 + max((turns.get(value.maker, 0) for value in read), default=0)
    return turns


def _apart(values: Values) -> set[str]:
    """Return the instructions that need nothing but what is given, and what they alone need."""
    apart: set[str] = set()
    for name, read in values.read.items():
        if all(_is_free(value, values, apart) for value in read):
            apart.add(name)
    return apart


def _is_free(value: Value, values: Values, apart: set[str]) -> bool:
    """Return whether nothing is held for it to be read later."""
    return value.maker not in values.read or (value.maker in apart and len(value.readers) == 1)


def _last_other(value: Value, reader: str, turns: dict[str, int]) -> float:
    """Return the last turn in which another instruction than ``reader`` reads a value."""
    if value.is_result:
        return float("inf")
    return max((turns[other] for other in value.readers if other != reader), default=0)
