"""Lets XLA partition a program over devices, and returns the program that each of them has.

XLA has no function that only partitions. So the program is compiled for host devices, and the text
that XLA writes after its partitioner is taken, before the CPU's own changes: there bfloat16 is
float32 from then on. ``xla_dump_hlo_pass_re`` names the passes whose results are written:
https://openxla.org/xla/tools
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import Module, parsed
from pytest_dlperf.worker.frameworks.jax.cost.shardings import (
    FREE,
    Placement,
    decided,
    spread_or_free,
)

_PASS: Final = "spmd-partitioning"


@dataclass(frozen=True)
class Program:
    """A function of arrays on devices."""

    jaxpr: ClosedJaxpr
    name: str
    #: How its inputs are placed; empty: as they like.
    given: Sequence[Placement]
    #: How its outputs are to be placed.
    results: Sequence[Placement]
    #: Whether it may write into the memory of each input; empty: into none.
    donated: Sequence[bool] = ()


class Partitioned(NamedTuple):
    """A program for all devices, as each of them has it."""

    module: Module
    #: Of its outputs.
    placements: list[Placement]


def partitioned(program: Program, folder: Path) -> Partitioned:
    """Return what XLA's partitioner makes of ``program``.

    Nothing is computed, and no array is made. ``folder`` is made for what XLA writes, and removed.
    Raises ``RuntimeError`` where it writes no partitioned program.
    """
    options = {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_pass_re": _PASS,
        # Code for this CPU is made, and thrown away
        "xla_backend_optimization_level": 0,
    }
    try:
        compiled = _lowered(program).compile(compiler_options=options)
        texts = list(folder.glob(f"*after_{_PASS}*.txt"))
        if len(texts) != 1:
            raise RuntimeError(
                f"XLA of JAX {jax.__version__} wrote {len(texts)} programs after {_PASS}, where "
                "one is read; a newer pytest-dlperf may know this version"
            )
        module = parsed(texts[0].read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Partitioned(module, list(map(spread_or_free, compiled.output_shardings)))


def unpartitioned(program: Program) -> Partitioned:
    """Return ``program`` on one device, for which nothing is partitioned."""
    module = parsed(_lowered(program).as_text(dialect="hlo", debug_info=True))
    return Partitioned(module, [FREE] * len(program.results))


def _lowered(program: Program) -> Any:
    run = jaxpr_as_fun(program.jaxpr)

    def called(*arrays: Any) -> Any:
        return tuple(run(*arrays))

    called.__name__ = program.name
    avals = program.jaxpr.in_avals
    shapes = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=decided(placement))
        for aval, placement in zip(avals, program.given or [FREE] * len(avals), strict=True)
    ]
    results = tuple(map(decided, program.results))
    # An input that nothing reads keeps its number
    return jax.jit(called, out_shardings=results, keep_unused=True).lower(*shapes)
