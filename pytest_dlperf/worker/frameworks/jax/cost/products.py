"""Floating-point operations of the products and convolutions of HLO, and the dtype of them."""

from __future__ import annotations

import math
import re
from typing import Final

from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import (
    Array,
    Computation,
    Instruction,
    bits_of,
    dtype_of,
)

_LABELS: Final = re.compile(r"\w+_(\w+)->\w+")
_DILATION: Final = re.compile(r"lhs_dilate=([\dx]+)")
#: The dtype in which an algorithm multiplies: ``bf16`` of ``dot_bf16_bf16_f32_x3``.
_ALGORITHM: Final = re.compile(r"dot_(?:any_)?([a-z0-9]+)_")


def flops_of(computation: Computation, instruction: Instruction) -> int:
    """Return the operations of an instruction, a multiplication and an addition being two.

    They are those of its shapes, with the padding of a convolution, and without the zeros that a
    dilation of its input puts in. 0 for what is neither a product nor a convolution.
    """
    inputs = computation.inputs(instruction)
    if instruction.opcode == "dot":
        contracted = _numbers(instruction.attributes.get("lhs_contracting_dims", ""))
        return 2 * _elements(instruction) * math.prod(inputs[0].shape[i] for i in contracted)
    if instruction.opcode == "convolution":
        return _convolution(instruction, inputs[1])
    return 0


def _convolution(instruction: Instruction, kernel: Array) -> int:
    labels = _LABELS.search(instruction.attributes["dim_labels"])
    if labels is None:
        raise ValueError(f"a convolution of XLA has unknown labels: {instruction.attributes}")
    outputs = labels[1].index("o")
    each = math.prod(length for axis, length in enumerate(kernel.shape) if axis != outputs)
    dilated = _DILATION.search(instruction.attributes.get("window", ""))
    dilation = math.prod(map(int, dilated[1].split("x"))) if dilated else 1
    return 2 * _elements(instruction) * each // dilation


def dtype_of_product(computation: Computation, instruction: Instruction, *, on_gpu: bool) -> str:
    """Return the dtype whose peak bounds a product.

    Of two dtypes the shorter operand is converted to the longer one's. XLA's libraries on GPUs do
    float32 products in TF32 unless an operand's precision is ``HIGHEST``.
    """
    inputs = computation.inputs(instruction)[:2]
    dtype = max((array.dtype for array in inputs), key=bits_of)
    algorithm = _ALGORITHM.match(instruction.attributes.get("algorithm", ""))
    if algorithm is not None:
        name = algorithm[1]
        if name == "tf32":
            return "tf32" if on_gpu else "float32"
        return dtype if name == "f8" else dtype_of(name)
    if dtype == "float32" and on_gpu:
        precision = instruction.attributes.get("operand_precision", "")
        return "float32" if "highest" in precision.lower() else "tf32"
    return dtype


def _elements(instruction: Instruction) -> int:
    return instruction.arrays[0].elements


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
