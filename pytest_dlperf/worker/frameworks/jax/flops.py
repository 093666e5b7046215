"""Counts the floating-point operations of a jaxpr, by the dtype that they are in."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Primitive

from pytest_dlperf.worker.frameworks.base import Uncounted


class Work:
    """What is known of the matrix work of a computation."""

    def __init__(self) -> None:
        #: Floating-point operations by dtype; a multiplication and an addition are two.
        self.flops: Counter[str] = Counter()
        #: What ran without a formula, and may multiply.
        self.uncounted = Uncounted()
        #: Whether float32 products (``matmul``) and convolutions (``cudnn``) let a GPU use TF32.
        self.tf32: set[tuple[str, bool]] = set()

    def add(self, other: Work, *, times: float = 1) -> None:
        """Add the work of ``other``, done so many ``times``, which may be a share."""
        for dtype, operations in other.flops.items():
            if times:
                self.flops[dtype] += round(times * operations)
        self.uncounted.update_all(other.uncounted)
        self.tf32 |= other.tf32

    def tf32_seen(self) -> dict[str, list[bool]]:
        """Return whether products, and convolutions, let a GPU use TF32."""
        by_part: dict[str, list[bool]] = {}
        for part, is_on in sorted(self.tf32):
            by_part.setdefault(part, []).append(is_on)
        return by_part


def work_of(jaxpr: Any) -> Work:
    """Return the matrix products and convolutions of ``jaxpr``, of all devices together.

    By the dtype of their longer operand, or that in which they are to multiply. The body of a
    ``scan`` counts for each of its rounds, a Pallas kernel for each place of its grid, and of the
    branches of a ``cond`` the one with the most. How often a ``while`` goes around is not known.
    """
    work = Work()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        formula = _FORMULAS.get(name)
        if formula is not None:
            dtype, tf32 = _arithmetic_of(equation)
            work.flops[dtype] += formula(equation)
            if tf32 is not None:
                work.tf32.add(("cudnn" if "conv" in name else "matmul", tf32))
            continue
        inner = [work_of(body) for body in _jaxprs_in(equation.params.values())]
        times = _times(name, equation.params)
        if times is None and any(body.flops or body.uncounted for body in inner):
            work.uncounted.note(name, [dtype for body in inner for dtype in body.flops])
        if not inner and _may_multiply(equation.primitive):
            work.uncounted.note(name, _dtypes_of(equation))
        longest = max(inner, key=lambda body: sum(body.flops.values()), default=None)
        for body in inner:
            # The other branches of a cond are not done as well, but they may be
            is_left_out = name == "cond" and body is not longest
            work.add(body, times=0 if is_left_out else 1 if times is None else times)
    return work


def _times(name: str, parameters: Mapping[str, Any]) -> int | None:
    """Return how often the body of an operation is done, over all devices; None: unknown."""
    if name == "scan":
        return int(parameters["length"])
    if name == "while":
        return None
    if name == "pallas_call":
        grid = getattr(parameters.get("grid_mapping"), "grid", (None,))
        return int(math.prod(grid)) if all(isinstance(one, int) for one in grid) else None
    if name == "shard_map":
        shape = parameters["mesh"].shape
        manual = parameters.get("manual_axes") or shape.keys()
        return int(math.prod(shape[axis] for axis in manual))
    return 1


def _jaxprs_in(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _jaxprs_in(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr


def _dtypes_of(equation: Any) -> list[str]:
    avals = [one.aval for one in equation.invars]
    return [aval.dtype.name for aval in avals if hasattr(aval, "dtype")]


def _arithmetic_of(equation: Any) -> tuple[str, bool | None]:
    """Return the dtype of a product, and whether a GPU may use TF32; None: not of float32.

    Of two dtypes the shorter operand is converted to the longer one's. XLA's libraries do float32
    products in TF32 unless an operand's precision is ``HIGHEST``. A preset algorithm names the
    dtype that its operands are cast to.
    """
    operand = max((operand.aval.dtype for operand in equation.invars[:2]), key=_bytes_of).name
    operand = "float8" if operand.startswith("float8") else operand
    precision = equation.params.get("precision")
    if isinstance(precision, jax.lax.DotAlgorithmPreset):
        dtype = next((d for p, d in _CAST_TO.items() if precision.name.startswith(p)), operand)
        is_tf32 = precision.name.startswith(("DEFAULT", "TF32"))
    elif isinstance(precision, jax.lax.DotAlgorithm):
        cast = precision.lhs_precision_type
        dtype, is_tf32 = np.dtype(cast).name, False
    else:
        operands = precision if isinstance(precision, tuple) else (precision,)
        dtype, is_tf32 = operand, jax.lax.Precision.HIGHEST not in operands
    return dtype, is_tf32 if dtype == "float32" else None


def _bytes_of(dtype: Any) -> int:
    return int(dtype.itemsize)


#: The dtype that a preset algorithm multiplies in, by how its name begins.
_CAST_TO: Final = {
    "ANY_F8": "float8",
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "TF32": "float32",
}


def _dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    return int(2 * math.prod(out) * math.prod(left[axis] for axis in contracted))


def _ragged_dot(equation: Any) -> int:
    """Return the operations of products of groups: each row, or column, belongs to one group."""
    numbers = equation.params["ragged_dot_dimension_numbers"]
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    shared = {*contracted, *batch, *numbers.rhs_group_dimensions}
    left, right = (one.aval.shape for one in equation.invars[:2])
    return int(2 * math.prod(left) * _free(right, shared))


def _free(shape: Iterable[int], shared: set[int]) -> int:
    return math.prod(length for axis, length in enumerate(shape) if axis not in shared)


def _convolution(equation: Any) -> int:
    kernel, out = equation.invars[1].aval.shape, equation.outvars[0].aval.shape
    outputs = equation.params["dimension_numbers"].rhs_spec[0]
    each = math.prod(length for axis, length in enumerate(kernel) if axis != outputs)
    # No work is done on the zeros between a dilated input, as in a strided one's gradient
    dilation = math.prod(equation.params["lhs_dilation"])
    return int(2 * math.prod(out) * each // dilation)


_FORMULAS: Final[Mapping[str, Callable[[Any], int]]] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "ragged_dot_general": _ragged_dot,
}
#: Operations of JAX that multiply, or that call what may, by their names.
_MULTIPLIES: Final = re.compile(
    r"ffi_call|custom_call|call_exported|fusion|attention|matmul|gemm|scaled_dot|triton|pallas"
)


def _may_multiply(primitive: Any) -> bool:
    """Return whether an operation without a formula may do matrix work; others' all may."""
    return primitive.name not in _names_in_jax() or bool(_MULTIPLIES.search(primitive.name))


@functools.cache
def _names_in_jax() -> frozenset[str]:
    """Return the names of the operations that JAX itself has."""
    modules = [module for name, module in sys.modules.items() if name.startswith("jax.")]
    values = (value for module in modules for value in vars(module).values())
    return frozenset(value.name for value in values if isinstance(value, Primitive))
