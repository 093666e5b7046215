"""Sums of the operators of a traced step, by their places, names and shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from pytest_dlperf.core.wire_cost import OperatorCost


class OperatorKey(NamedTuple):
    """What operators that are counted together have in common."""

    path: str
    phase: str
    name: str
    shapes: str
    #: Of its product; empty for an operator without one.
    flops_dtype: str


@dataclass
class _Sums:
    calls: int = 0
    flops: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class OperatorSums:
    """Adds up calls, floating-point operations and bytes of operators."""

    def __init__(self) -> None:
        self._sums: dict[OperatorKey, _Sums] = {}

    def add(
        self, key: OperatorKey, *, flops: int, read_bytes: int, written_bytes: int, calls: int = 1
    ) -> None:
        """Add so many calls; the other numbers are of one of them."""
        sums = self._sums.setdefault(key, _Sums())
        sums.calls += calls
        sums.flops += calls * flops
        sums.read_bytes += calls * read_bytes
        sums.written_bytes += calls * written_bytes

    def calls(self) -> int:
        """Return the calls of all operators."""
        return sum(sums.calls for sums in self._sums.values())

    def flops(self) -> dict[str, int]:
        """Return the floating-point operations by dtype."""
        by_dtype: Counter[str] = Counter()
        for key, sums in self._sums.items():
            if sums.flops:
                by_dtype[key.flops_dtype] += sums.flops
        return dict(sorted(by_dtype.items()))

    def cost(self) -> list[OperatorCost]:
        """Return the operators in the order of their places, names and shapes."""
        return [
            OperatorCost(
                path=key.path, phase=key.phase, name=key.name, shapes=key.shapes,
                calls=sums.calls, flops=sums.flops,
                flops_dtype=key.flops_dtype if sums.flops else "",
                read_bytes=sums.read_bytes, written_bytes=sums.written_bytes,
            )
            for key, sums in sorted(self._sums.items())
        ]  # fmt: skip
