"""How the arrays of a traced program are placed on devices, where its operations say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jax.sharding import NamedSharding, PartitionSpec, Sharding

#: Of an array that no operation placed: JAX and XLA may place it as they like.
FREE: Final = None


class Undecided:
    """Of an array that only XLA's partitioner places."""


UNDECIDED: Final = Undecided()
#: Names of the operation that calls a compiled function, which changed.
JIT: Final = ("jit", "pjit")
#: A sharding over several devices, ``FREE`` or ``UNDECIDED``.
Placement = Any


def placements(jaxpr: Any, given: Mapping[Any, Placement]) -> dict[Any, Placement]:
    """Return the placement of each variable of ``jaxpr``; ``given`` are those of its inputs.

    What a ``jit`` or ``shard_map`` returns is placed as it says, what is computed from whole
    copies alone is whole, and what is computed from arrays that nobody placed is not placed.
    """
    known = dict(given)
    for equation in jaxpr.eqns:
        inputs = [FREE if is_literal(v) else known.get(v, FREE) for v in equation.invars]
        rule = _RULES.get(equation.primitive.name, _computed)
        for variable, placed in zip(equation.outvars, rule(equation, inputs), strict=True):
            known[variable] = placed
    return known


def output_placements(jaxpr: Any, given: Sequence[Placement]) -> list[Placement]:
    """Return the placements of the outputs of ``jaxpr``, whose inputs are placed as ``given``."""
    known = placements(jaxpr, dict(zip(jaxpr.invars, given, strict=True)))
    return [FREE if is_literal(v) else known.get(v, FREE) for v in jaxpr.outvars]


def spread_or_free(sharding: Any) -> Placement:
    """Return ``sharding`` if it is of several devices; an array on one may go anywhere."""
    if isinstance(sharding, Sharding) and sharding.num_devices > 1:
        return sharding
    return FREE


def decided(placement: Placement) -> Sharding | None:
    """Return the sharding that ``placement`` is; None, which leaves it to JAX, for others."""
    return placement if isinstance(placement, Sharding) else None


def is_literal(atom: Any) -> bool:
    """Return whether an atom of a jaxpr is a number in it, and no variable."""
    return hasattr(atom, "val")


def _computed(equation: Any, inputs: Sequence[Placement]) -> list[Placement]:
    placed = [sharding for sharding in inputs if sharding is not FREE]
    result: Placement = FREE
    if placed:
        is_whole = all(
            isinstance(sharding, Sharding) and sharding.is_fully_replicated for sharding in placed
        )
        result = placed[0] if is_whole else UNDECIDED
    return [result] * len(equation.outvars)


def _jit(equation: Any, inputs: Sequence[Placement]) -> list[Placement]:
    parameters = equation.params
    given = [
        sharding if isinstance(sharding, Sharding) else placed
        for sharding, placed in zip(parameters["in_shardings"], inputs, strict=True)
    ]
    within = output_placements(parameters["jaxpr"].jaxpr, given)
    return [
        spread_or_free(sharding) if isinstance(sharding, Sharding) else placed
        for sharding, placed in zip(parameters["out_shardings"], within, strict=True)
    ]


def _device_put(equation: Any, inputs: Sequence[Placement]) -> list[Placement]:
    return [
        spread_or_free(device) if device is not None else placed
        for device, placed in zip(equation.params["devices"], inputs, strict=True)
    ]


def _constraint(equation: Any, _inputs: Sequence[Placement]) -> list[Placement]:
    return [spread_or_free(equation.params["sharding"])]


def _shard_map(equation: Any, inputs: Sequence[Placement]) -> list[Placement]:
    mesh, specs = equation.params["mesh"], equation.params.get("out_specs")
    axes = equation.params.get("newly_manual_axes", equation.params.get("manual_axes"))
    if specs is None or axes is None or set(axes) != set(mesh.axis_names) or mesh.empty:
        return _computed(equation, inputs)
    if not hasattr(mesh, "devices"):
        return _computed(equation, inputs)
    return [
        spread_or_free(NamedSharding(mesh, spec if spec is not None else PartitionSpec()))
        for spec in specs
    ]


_RULES: Final[Mapping[str, Callable[[Any, Sequence[Placement]], list[Placement]]]] = {
    "device_put": _device_put,
    **dict.fromkeys(JIT, _jit),
    "shard_map": _shard_map,
    "sharding_constraint": _constraint,
}
