"""What one training step asks of its devices, counted without running it: the record of a trace.

A trace writes it, ``baselines/cost`` stores it. All numbers are exact, of one rank, and of one
step; they do not depend on the machine that traced. Layers that are alike are one: the path of
a module has ``*`` for the index of a layer, as in ``blocks.*.attention``.

Standard library only, as ``wire_records.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    # Not in the standard library of Python 3.10.
    from typing_extensions import NotRequired

#: File of the trace in the folder of its run.
COST_RECORD: Final = "cost.json"
#: File beside it while it is traced: one line, as in ``step 2 of 2, 1280 operators``.
COST_PROGRESS: Final = "cost.progress"
#: Version of the record. 1: the first.
COST_FORMAT: Final = 1
#: What memory is held for, at the peak, in PyTorch.
MEMORY_KINDS: Final = ("parameters", "gradients", "optimizer", "activations", "rest")
#: And in JAX, whose step is a function: ``arguments`` are what it is given, such as parameters, an
#: optimizer's state and a batch; ``outputs`` what it returns, but in the memory of a donated
#: argument; ``temporaries`` all in between.
FUNCTION_KINDS: Final = ("arguments", "outputs", "temporaries")
#: Frameworks whose operators are traced before a compiler fuses them.
FUSED_LATER: Final = frozenset({"jax"})


class OperatorCost(TypedDict):
    """The calls of an operator that starts work on a device, with equal shapes, at one place.

    Views and allocations start none, and are left out.
    """

    #: Path of the module that called it; empty outside of all modules.
    path: str
    #: ``forward``, ``backward`` or ``optimizer``; ``rest`` for what is none of them.
    phase: str
    #: Without the namespace: ``mm``.
    name: str
    #: Of its inputs, as in ``4096x4096 bfloat16, 4096x128 bfloat16``; of a long list of tensors
    #: their number and elements, as in ``291 tensors of 8030261248 float32``.
    shapes: str
    calls: int
    #: Of all calls; 0 where it multiplies nothing.
    flops: int
    #: The dtype whose peak bounds them, ``tf32`` for float32 where it may be used; empty where
    #: there are none.
    flops_dtype: str
    read_bytes: int
    written_bytes: int


class CollectiveCost(TypedDict):
    """Equal collectives that follow each other without another collective between them."""

    #: As in ``all-gather``, ``reduce-scatter``, ``all-reduce``, ``all-to-all``, ``broadcast``,
    #: ``send``, ``receive``.
    kind: str
    #: The mesh dimension, or how its ranks follow each other, as in ``8 ranks, 1 apart``.
    group: str
    ranks: int
    #: How its ranks follow each other: ``8 ranks, 1 apart``, as in
    #: ``worker/cost/spread.py``.
    spread: str
    #: Ranks from the first of it to the last, both included: more than a node has lie on several.
    span: int
    dtype: str
    #: Of the whole tensor, gathered or not yet reduced, of one of them.
    bytes: int
    calls: int
    path: str
    phase: str
    #: How many of them other work follows before somebody waits for them; absent where a compiler
    #: orders them.
    overlapped: NotRequired[int]


class LiveCost(TypedDict):
    """What is alive at the peak of memory, and belongs to one module."""

    path: str
    #: One of ``MEMORY_KINDS``, or of ``FUNCTION_KINDS``.
    kind: str
    bytes: int


class MemoryCost(TypedDict):
    """The bytes of all tensors that are alive at once, at their peak within the step.

    Of a function they follow from its program before it is fused, in an order that no backend has
    decided.
    """

    peak_bytes: int
    #: By the kinds of the framework; they add up to the peak.
    by_kind: dict[str, int]
    #: Those with the most bytes first.
    at_peak: list[LiveCost]


class PlaceCount(TypedDict):
    """How often something happens at one line of the program."""

    #: ``file.py:12``, relative to the folder of the workload where it is below it.
    place: str
    #: ``.item()``, or ``io_callback``, of a host wait; the reason of a graph break.
    what: str
    count: int


class StageCost(TypedDict):
    """The step of one rank; of a pipeline, of one rank of each stage.

    A figure that the framework's trace does not know is absent.
    """

    rank: int
    #: Floating-point operations by the dtype whose peak bounds them.
    flops: dict[str, int]
    #: In the order of their paths, phases, names and shapes.
    operators: list[OperatorCost]
    #: How many modules a path with a star stands for, as in ``{"blocks.*": 32}``.
    layers: dict[str, int]
    launches: NotRequired[int]
    #: In the order in which the step starts them; in JAX in that of the program.
    collectives: list[CollectiveCost]
    memory: NotRequired[MemoryCost]
    #: Where the host needs a value of the device before it goes on; in JAX where devices wait
    #: for a function of the host, too.
    host_waits: NotRequired[list[PlaceCount]]
    #: Parameters that this rank holds, by dtype; absent where none are declared.
    parameters: NotRequired[dict[str, int]]
    #: Of compiled parts; both 0 and empty where nothing is compiled.
    graph_breaks: NotRequired[list[PlaceCount]]
    recompilations: NotRequired[int]


class CostRecord(TypedDict, total=False):
    """A traced case; or the problem that kept it from being traced."""

    format: int
    #: Why there is no cost: a sentence that names the line, where there is one. Nothing else then.
    problem: str
    #: Place in the program of the problem, as in ``PlaceCount``.
    place: NotRequired[str]
    framework: str
    #: Of the framework: what differs between versions is no change of the code.
    framework_version: str
    world_size: int
    #: Parameters of the whole model; absent where none are declared.
    parameters: NotRequired[int]
    stages: list[StageCost]
    #: What this trace cannot see of this workload, a sentence each.
    notes: list[str]
    #: Of all ranks in the step, in the unit of the case; absent where the workload says none.
    work: NotRequired[float]
    #: Of the trace itself; not compared.
    elapsed_s: float
    trace_peak_bytes: int
