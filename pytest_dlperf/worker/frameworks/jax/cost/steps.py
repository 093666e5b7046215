"""Traces ``build`` and two steps into one jaxpr, and finds the second step in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
from jax.extend.core import ClosedJaxpr, Var
from jax.sharding import NamedSharding

from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.jax.cost.abstract_job import AbstractJob
from pytest_dlperf.worker.frameworks.jax.cost.partitioned import (
    Partitioned,
    of_one_device,
    partitioned,
)
from pytest_dlperf.worker.frameworks.jax.cost.shardings import (
    FREE,
    UNDECIDED,
    Placement,
    placements,
    spread_or_free,
)
from pytest_dlperf.worker.workload import build

#: The name of the step in the trace.
_STEP: Final = "dlperf_step"


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """The second step of a training as one program for all devices."""

    #: Its first outputs are the declared parameters, the others all that it leaves.
    program: ClosedJaxpr
    declared: int
    #: How its inputs are placed.
    given: Sequence[Placement]
    #: What is done before it; its outputs are the inputs of the step.
    before: ClosedJaxpr

    def partitioned(self, world_size: int, folder: Path) -> Partitioned:
        """Return the program of the step on each device; XLA writes below ``folder``."""
        if world_size == 1:
            return of_one_device(self.program, _STEP)
        given = self.given
        if any(placement is UNDECIDED for placement in given):
            placed = partitioned(self.before, (), "before", folder / "before").placements
            given = [
                now if placement is UNDECIDED else placement
                for now, placement in zip(placed, given, strict=True)
            ]
        return partitioned(self.program, given, _STEP, folder / "step")

    def axes(self, world_size: int) -> dict[str, int]:
        """Return the axes of the first mesh of all devices that an input is placed on."""
        for placement in self.given:
            if isinstance(placement, NamedSharding) and placement.num_devices == world_size:
                return dict(placement.mesh.shape)
        return {}


def traced_step(workload: str, job: AbstractJob, progress: Progress) -> TracedStep:
    """Return the second step of ``workload``, traced on abstract arrays.

    Within a trace every function of JAX makes abstract arrays, of any size, so that ``build`` and
    the first step are traced as well, and their arrays are where their shardings put them. Raises
    what the workload raises.
    """
    declared = 0

    def whole() -> Any:
        progress.begin("build")
        step = build(workload, job)
        progress.begin("step 1 of 2")
        step()
        progress.begin("step 2 of 2")

        def second() -> Any:
            nonlocal declared
            step()
            parameters = [] if job.declared is None else jax.tree.leaves(job.declared())
            declared = len(parameters)
            return parameters

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
    inputs = list(call.invars)
    before = outer.jaxpr.replace(eqns=equations[:position], outvars=inputs)
    inner = call.params["jaxpr"]
    return TracedStep(
        program=inner.replace(jaxpr=_with_all_outputs(inner.jaxpr)),
        declared=declared,
        given=[FREE if hasattr(atom, "val") else known.get(atom, FREE) for atom in inputs],
        before=outer.replace(jaxpr=before),
    )


def _with_all_outputs(jaxpr: Any) -> Any:
    """Return ``jaxpr`` with what its operations leave unused among its outputs.

    A training keeps its state, such as an optimizer's, where only the program has it. Without a
    use, XLA would leave out the work of it.
    """
    used = {atom for equation in jaxpr.eqns for atom in equation.invars if not _is_literal(atom)}
    used |= {atom for atom in jaxpr.outvars if not _is_literal(atom)}
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


def _is_literal(atom: Any) -> bool:
    return hasattr(atom, "val")


def _new_variable(aval: Any) -> Any:
    try:
        return Var(aval)
    except TypeError:  # as before JAX 0.7
        return Var("", aval)
