"""Records of a rank about its model: shapes, arithmetic, graphs, and checksums of parameters.

Standard library only, as ``wire_records.py``.
"""

from __future__ import annotations

from typing import Final, TypedDict

#: The dtype in which most of a precision's matrix work is done.
DTYPE_OF_PRECISION: Final = {
    "fp32": "float32",
    "tf32": "float32",
    "amp": "float16",
    "bf16": "bfloat16",
    "pure_fp16": "float16",
    "fp8": "float8",
}
#: Those that are shorter than float32.
SHORTER_DTYPES: Final = ("float16", "bfloat16", "float8")


class GraphCounts(TypedDict, total=False):
    """What Dynamo or XLA made until the end of the window; empty if it does not say."""

    #: ``XLA``; left out by Dynamo.
    compiler: str
    graphs: int
    #: Places at which a function could not be one graph, and functions that were left to Python.
    graph_breaks: int
    #: Compilations of a function that was compiled before; XLA's since the first step.
    recompiles: int
    #: Operators of all graphs together.
    operators: int
    #: Operators of each of the last graphs, the earliest first; Dynamo keeps 64.
    operators_by_graph: list[int]
    #: Functions whose CUDA graphs Inductor left out although it was to make some.
    cudagraph_skips: int


class CompileRecord(GraphCounts):
    """What torch.compile or XLA did: in all, and within the measured window."""

    frames: int
    seconds: float
    frames_in_window: int
    seconds_in_window: float


class _ArithmeticAfter(TypedDict):
    #: What may use TF32 by the framework's flags; empty on a CPU where it has none.
    tf32: dict[str, bool]
    #: Variables of the environment that override flags.
    overrides: dict[str, str]
    #: Relative error of one float32 product against float64; None if it was not done.
    product_error: float | None


class ArithmeticRecord(_ArithmeticAfter, total=False):
    """How float32 work was done, read after the measured window: the workload may change it."""

    #: What the flags said at the float32 work of the watched iteration, whose own settings may end
    #: with it: ``[False, True]`` if both. In JAX each product says it. Paddle and TensorFlow have
    #: no flags of a step, and leave it out.
    tf32_in_step: dict[str, list[bool]]


class _AnyModel(TypedDict):
    input_shapes: list[list[int]] | None
    #: Floating-point operations of the matrix work by the dtype that did it.
    flops_by_dtype: dict[str, int]
    parameter_count: int


class ModelRecord(_AnyModel, total=False):
    """What was seen of the model in the first two iterations."""

    #: Why nobody could look without changing what is measured, and what to do about it.
    unwatched: str
    #: Numbers of parameters in this rank's memory, by which shard of them it has; those that it
    #: has whole under the empty text.
    held: dict[str, int]
    #: Operators that ran besides those in ``flops_by_dtype`` and may do matrix work, which nothing
    #: here can count; and the floating-point dtypes that they were given.
    uncounted: dict[str, list[str]]
    #: Those of ``flops_by_dtype`` that are neither in the backward pass nor in an optimizer; left
    #: out where the backward pass is not twice as many, as some matrices are frozen.
    forward_flops: dict[str, int]


class ShardChecksum(TypedDict):
    """The digest of this rank's shards of parameters, equal on the ranks of one place."""

    digest: str
    tensors: int
    #: Placements, and this rank's coordinates among the shards.
    place: str


class _AnyChecksum(TypedDict):
    digest: str
    tensors: int


class Checksum(_AnyChecksum, total=False):
    """The digest of the replicated parameters, and the number of their tensors."""

    #: Of those that are sharded over ranks; left out if none is.
    shards: ShardChecksum


class _WithChecksum(TypedDict):
    value: Checksum | None


class ChecksumRecord(_WithChecksum, total=False):
    """The checksum after the training; None if no replicated parameters were declared."""

    #: Of a user's own program that asks for checks: why its precision was not looked at.
    unwatched: str
