"""Traces ``build`` and two steps into one jaxpr, and finds the second step in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import jax
from jax.extend.core import ClosedJaxpr, Var
from jax.sharding import NamedSharding, Sharding

from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.frameworks.jax.cost.abstract_job import AbstractJob
from pytest_dlperf.worker.frameworks.jax.cost.host_waits import HostWaits
from pytest_dlperf.worker.frameworks.jax.cost.partitioned import (
    Partitioned,
    Program,
    partitioned,
    unpartitioned,
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
    #: How the inputs of the step are placed, by its variables.
    inputs: Mapping[Any, Placement]
    #: What is done before the step; its outputs are the inputs of the program.
    before: Program

    def partitioned(self, world_size: int, folder: Path) -> Partitioned:
        """Return the program of the step on each device; XLA writes below ``folder``."""
        if world_size == 1:
            return unpartitioned(self.program)
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
        placements_after = {**self.inputs, **dict(zip(self.outputs, placed, strict=True))}
        counts: Counter[str] = Counter()
        for atom in self.parameters:
            placement = None if is_literal(atom) else decided(placements_after.get(atom))
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


def traced_step(
    workload: str, job: AbstractJob, progress: Progress, waits: HostWaits
) -> TracedStep:
    """Return the second step of ``workload``, traced on abstract arrays; count its ``waits``.

    Within a trace every function of JAX makes abstract arrays, of any size, so that ``build`` and
    the first step are traced as well, and their arrays are where their shardings put them. Raises
    what the workload raises.
    """
    whole = _traced(workload, job, progress, waits)
    equations = whole.jaxpr.eqns
    calls = [
        index for index, equation in enumerate(equations) if equation.params.get("name") == _STEP
    ]
    if not calls:
        raise ValueError("the step does nothing on a device, so that nothing is traced")
    call = equations[calls[0]]
    constants = [spread_or_free(getattr(array, "sharding", None)) for array in whole.consts]
    places = placements(whole.jaxpr, dict(zip(whole.jaxpr.constvars, constants, strict=True)))
    placed = [_placement(atom, places) for atom in call.invars]
    step = call.params["jaxpr"]
    inputs = dict(zip(step.jaxpr.invars, placed, strict=True))
    single = _single_call(step.jaxpr)
    if single is None:
        jaxpr = _with_all_outputs(step.jaxpr)
        results = output_placements(jaxpr, placed)
        program = Program(step.replace(jaxpr=jaxpr), _STEP, placed, results, _donated(step.jaxpr))
        outputs, taken = jaxpr.outvars, jaxpr.invars
    else:
        program = _program_called(single, inputs)
        outputs, taken = single.outvars, single.invars
    outer = dict(zip(step.jaxpr.invars, call.invars, strict=True))
    before = whole.jaxpr.replace(
        eqns=equations[: calls[0]],
        outvars=[atom if is_literal(atom) else outer[atom] for atom in taken],
    )
    return TracedStep(
        program=program,
        outputs=list(outputs),
        parameters=list(step.jaxpr.outvars),
        inputs=inputs,
        before=Program(whole.replace(jaxpr=before), "before", (), [FREE] * len(taken)),
    )


def _traced(workload: str, job: AbstractJob, progress: Progress, waits: HostWaits) -> ClosedJaxpr:
    """Return the jaxpr of ``build`` and two steps, of which the second is a call in it.

    What that call returns are the declared parameters after it.
    """

    def whole() -> Any:
        progress.begin("build")
        step = build(workload, job)
        progress.begin("step 1 of 2")
        step()
        progress.begin("step 2 of 2")

        def second() -> Any:
            waits.begin()
            step()
            return [] if job.declared is None else jax.tree.leaves(job.declared())

        second.__name__ = _STEP
        return jax.jit(second)()

    with waits.follow():
        return jax.make_jaxpr(whole)()


def _placement(atom: Any, places: Mapping[Any, Placement]) -> Placement:
    return FREE if is_literal(atom) else places.get(atom, FREE)


def _single_call(jaxpr: Any) -> Any:
    """Return the call of a compiled function that is all that a step does; None if none is."""
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive.name not in JIT:
        return None
    call, inputs = jaxpr.eqns[0], set(jaxpr.invars)
    is_of_inputs = all(is_literal(atom) or atom in inputs for atom in call.invars)
    return call if is_of_inputs else None


def _program_called(call: Any, places: Mapping[Any, Placement]) -> Program:
    """Return the program of a call, as JAX compiles it alone."""
    parameters = call.params
    given = [
        sharding if isinstance(sharding, Sharding) else _placement(atom, places)
        for atom, sharding in zip(call.invars, parameters["in_shardings"], strict=True)
    ]
    results = [
        sharding if isinstance(sharding, Sharding) else FREE
        for sharding in parameters["out_shardings"]
    ]
    return Program(
        parameters["jaxpr"], parameters["name"], given, results, parameters["donated_invars"]
    )


def _donated(jaxpr: Any) -> list[bool]:
    """Return of each input whether a compiled function that it is given to may write into it."""
    donated: set[Any] = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name in JIT:
            given = zip(equation.invars, equation.params["donated_invars"], strict=True)
            donated |= {atom for atom, is_donated in given if is_donated and not is_literal(atom)}
    return [variable in donated for variable in jaxpr.invars]


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
