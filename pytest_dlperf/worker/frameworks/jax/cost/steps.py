"""Traces ``build`` and two steps into one jaxpr, and finds the second step in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import jax
from jax.extend.core import Var
from jax.sharding import NamedSharding, Sharding

from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.jax.cost.abstract_job import AbstractJob
from pytest_dlperf.worker.frameworks.jax.cost.partitioned import (
    Partitioned,
    Program,
    of_one_device,
    partitioned,
)
from pytest_dlperf.worker.frameworks.jax.cost.shardings import (
    FREE,
    JIT,
    UNDECIDED,
    Placement,
    decided,
    is_literal,
    output_placements,
    placements,
    spread_or_free,
)
from pytest_dlperf.worker.workload import build

#: The name of the step in the trace.
_STEP: Final = "dlperf_step"


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """The second step of a training as one program for all devices."""

    program: Program
    #: Variables of the step that are outputs of the program, in their order.
    outputs: Sequence[Any]
    #: The declared parameters after the step, atoms of its jaxpr.
    parameters: Sequence[Any]
    #: How the inputs of the step are placed.
    known: Mapping[Any, Placement]
    #: What is done before the step; its outputs are the inputs of the program.
    before: Program

    def partitioned(self, world_size: int, folder: Path) -> Partitioned:
        """Return the program of the step on each device; XLA writes below ``folder``."""
        if world_size == 1:
            return of_one_device(self.program)
        given = self.program.given
        if any(placement is UNDECIDED for placement in given):
            placed = partitioned(self.before, folder / "before").placements
            given = [
                now if placement is UNDECIDED else placement
                for now, placement in zip(placed, given, strict=True)
            ]
        return partitioned(replace(self.program, given=given), folder / "step")

    def held(self, placed: Sequence[Placement]) -> dict[str, int]:
        """Return the parameters of one rank by dtype; ``placed`` are the program's outputs."""
        known = {**self.known, **dict(zip(self.outputs, placed, strict=True))}
        counts: Counter[str] = Counter()
        for atom in self.parameters:
            placement = None if is_literal(atom) else decided(known.get(atom))
            shape = atom.aval.shape
            counts[atom.aval.dtype.name] += math.prod(
                shape if placement is None else placement.shard_shape(shape)
            )
        return dict(sorted(counts.items()))

    def axes(self, world_size: int) -> dict[str, int]:
        """Return the axes of the first mesh of all devices that an input is placed on."""
        for placement in self.program.given:
            if isinstance(placement, NamedSharding) and placement.num_devices == world_size:
                return dict(placement.mesh.shape)
        return {}


def traced_step(workload: str, job: AbstractJob, progress: Progress) -> TracedStep:
    """Return the second step of ``workload``, traced on abstract arrays.

    Within a trace every function of JAX makes abstract arrays, of any size, so that ``build`` and
    the first step are traced as well, and their arrays are where their shardings put them. Raises
    what the workload raises.
    """

    def whole() -> Any:
        progress.begin("build")
        step = build(workload, job)
        progress.begin("step 1 of 2")
        step()
        progress.begin("step 2 of 2")

        def second() -> Any:
            step()
            return [] if job.declared is None else jax.tree.leaves(job.declared())

        second.__name__ = _STEP
        return jax.jit(second)()

    outer = jax.make_jaxpr(whole)()
    equations = outer.jaxpr.eqns
    position, call = next(
        (
            (number, equation)
            for number, equation in reversed(list(enumerate(equations)))
            if equation.params.get("name") == _STEP
        ),
        (0, None),
    )
    if call is None:
        raise WorkerFailure("step-empty", "the step does nothing on a device; nothing is traced")
    constants = [spread_or_free(getattr(c, "sharding", None)) for c in outer.consts]
    known = placements(outer.jaxpr, dict(zip(outer.jaxpr.constvars, constants, strict=True)))
    placed = [FREE if is_literal(atom) else known.get(atom, FREE) for atom in call.invars]
    closed = call.params["jaxpr"]
    inner = closed.jaxpr
    known = dict(zip(inner.invars, placed, strict=True))
    single = inner.eqns[0] if len(inner.eqns) == 1 else None
    if (
        single is not None
        and single.primitive.name in JIT
        and all(is_literal(atom) or atom in known for atom in single.invars)
    ):
        program = _of_call(single, known)
        outputs, inputs = list(single.outvars), list(single.invars)
    else:
        inner = _with_all_outputs(inner)
        results = output_placements(inner, placed)
        program = Program(closed.replace(jaxpr=inner), _STEP, placed, results)
        outputs, inputs = list(inner.outvars), list(inner.invars)
    outer_atoms = dict(zip(inner.invars, call.invars, strict=True))
    before = outer.jaxpr.replace(
        eqns=equations[:position],
        outvars=[atom if is_literal(atom) else outer_atoms[atom] for atom in inputs],
    )
    return TracedStep(
        program=program,
        outputs=outputs,
        parameters=list(closed.jaxpr.outvars),
        known=known,
        before=Program(outer.replace(jaxpr=before), "before", (), [FREE] * len(inputs)),
    )


def _of_call(call: Any, known: Mapping[Any, Placement]) -> Program:
    """Return the program that a step calls, where it calls one and does nothing else."""
    parameters = call.params
    given = [
        said if isinstance(said, Sharding) else FREE if is_literal(a) else known.get(a, FREE)
        for a, said in zip(call.invars, parameters["in_shardings"], strict=True)
    ]
    results = [
        said if isinstance(said, Sharding) else FREE for said in parameters["out_shardings"]
    ]
    return Program(parameters["jaxpr"], parameters["name"], given, results)


def _with_all_outputs(jaxpr: Any) -> Any:
    """Return ``jaxpr`` with what its operations leave unused among its outputs.

    A training keeps its state, such as an optimizer's, where only the workload has it. Without a
    use, XLA would leave out the work of it.
    """
    used = {atom for equation in jaxpr.eqns for atom in equation.invars if not is_literal(atom)}
    used |= {atom for atom in jaxpr.outvars if not is_literal(atom)}
    equations, left = [], []
    for equation in jaxpr.eqns:
        outputs = []
        for variable in equation.outvars:
            if variable not in used:
                variable = _new_variable(variable.aval)
                left.append(variable)
            outputs.append(variable)
        equations.append(equation.replace(outvars=outputs))
    return jaxpr.replace(eqns=equations, outvars=[*jaxpr.outvars, *left])


def _new_variable(aval: Any) -> Any:
    try:
        return Var(aval)
    except TypeError:  # as before JAX 0.7
        return Var("", aval)
