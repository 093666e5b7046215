"""Counts the operators and collectives of a partitioned program: what one rank does in a step."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.wire_cost import CollectiveCost, OperatorCost
from pytest_dlperf.worker.cost.folded_paths import folded, layers
from pytest_dlperf.worker.cost.operator_sums import OperatorKey, OperatorSums
from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.spread import spread_of
from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import (
    ANNOTATION,
    Array,
    Instruction,
    Module,
    name_of,
)
from pytest_dlperf.worker.frameworks.jax.cost.loops import Visit, Visits
from pytest_dlperf.worker.frameworks.jax.cost.places import HloPlaces
from pytest_dlperf.worker.frameworks.jax.cost.products import dtype_of_product, flops_of
from pytest_dlperf.worker.frameworks.jax.cost.replica_groups import (
    chain_of_first,
    group_of_first,
    mesh_axis_of,
)

#: Instructions that compute nothing: what holds others, names of values, other views of them.
_NO_WORK: Final = frozenset({
    ANNOTATION, "add-dependency", "after-all", "async-done", "async-start", "async-update",
    "bitcast", "broadcast", "call", "conditional", "constant", "copy", "domain",
    "get-dimension-size", "get-tuple-element", "iota", "opt-barrier", "parameter", "partition-id",
    "recv-done", "replica-id", "reshape", "send-done", "transpose", "tuple", "while",
})  # fmt: skip
#: By the instruction.
_COLLECTIVES: Final = {
    "all-gather": "all-gather",
    "all-reduce": "all-reduce",
    "all-to-all": "all-to-all",
    "collective-broadcast": "broadcast",
    "collective-permute": "permute",
    "ragged-all-to-all": "all-to-all",
    "reduce-scatter": "reduce-scatter",
}
#: Whose operands are the whole tensor; of others the results are.
_WHOLE_INPUT: Final = frozenset({"all-to-all", "permute", "reduce-scatter"})
#: Calls of a library, or of XLA itself, that multiply nothing.
_PLAIN_CALLS: Final = (
    "AllocateBuffer", "AssumeGatherIndicesInBound", "PartialReduce", "TopK",
    "annotate_device_placement", "mhlo.", "shape_assertion",
)  # fmt: skip
#: Instructions that read of an operand as much as they write, and no more.
_READS_RESULT: Final = frozenset({"dynamic-slice", "gather", "slice"})
#: Calls of a function of the host: ``xla_ffi_python_cpu_callback``, and as each version has it.
_CALLBACK: Final = re.compile(r"xla_\w*python\w*_callback")
#: Instructions that hand values to the host or take them of it, some of them among devices, too.
_OF_HOST: Final = frozenset({"infeed", "outfeed"})
_MAYBE_OF_HOST: Final = frozenset({"recv", "send"})
#: Operands whose shapes are said one by one.
_MOST_SHAPES: Final = 4


class Counts:
    """What one rank of a partitioned program asks for."""

    def __init__(
        self, world_size: int, places: Places, *, on_gpu: bool, axes: Mapping[str, int]
    ) -> None:
        """``axes`` are those of the mesh of all ranks, which name groups; empty without one."""
        self._world_size, self._places = world_size, places
        self._on_gpu, self._axes = on_gpu, axes
        self._sums = OperatorSums()
        self._paths: Counter[str] = Counter()
        self.collectives: list[CollectiveCost] = []
        #: How often the host does something before the devices go on, by line and by what it is.
        self.host_waits: Counter[tuple[str, str]] = Counter()
        #: Custom calls that may multiply, and have no formula.
        self.uncounted: set[str] = set()
        #: Lines of loops whose rounds the program does not say.
        self.unknown_loops: set[str] = set()

    def add(self, module: Module) -> None:
        """Add the work of a program."""
        named = HloPlaces(module, self._places)
        visits = Visits(module, flops_of)
        for visit in visits:
            opcode = visit.instruction.opcode
            if visit.times and (what := _host_work(visit.instruction)):
                self.host_waits[named.line_of(visit.instruction), what] += visit.times
            elif visit.times and opcode not in _NO_WORK:
                place = named.place_of(visit.instruction, visit.within)
                self._paths[place[0]] += 1
                path = folded(place[0])
                if opcode in _COLLECTIVES:
                    self._add_collective(visit, path, place[1])
                else:
                    self._add_operator(visit, path, place[1])
        self.unknown_loops |= {named.place_of(loop)[0] for loop in visits.unknown_loops}

    def _add_operator(self, visit: Visit, path: str, phase: str) -> None:
        computation, instruction, times, _ = visit
        if _is_index(instruction):
            return
        name = instruction.opcode
        if name == "custom-call":
            name = instruction.attributes.get("custom_call_target", "").strip('"')
            if not name.startswith(_PLAIN_CALLS):
                self.uncounted.add(name)
        flops = flops_of(computation, instruction)
        dtype = ""
        if flops:
            dtype = dtype_of_product(computation, instruction, on_gpu=self._on_gpu)
        inputs = computation.inputs(instruction)
        read, written = _bytes(instruction, inputs)
        key = OperatorKey(path, phase, name, _shapes(inputs), dtype)
        self._sums.add(key, flops=flops, read_bytes=read, written_bytes=written, calls=times)

    def _add_collective(self, visit: Visit, path: str, phase: str) -> None:
        computation, instruction, times, _ = visit
        kind = _COLLECTIVES[instruction.opcode]
        if kind == "permute":
            ranks = chain_of_first(instruction.attributes.get("source_target_pairs", ""))
        else:
            groups = instruction.attributes.get("replica_groups", "")
            ranks = group_of_first(groups, self._world_size)
        if len(ranks) < 2:
            return
        whole: Sequence[Array] = instruction.arrays
        if kind in _WHOLE_INPUT:
            whole = computation.inputs(instruction)
        spread = spread_of(ranks)
        cost = CollectiveCost(
            kind=kind,
            group=mesh_axis_of(ranks, self._axes) or spread,
            ranks=len(ranks),
            spread=spread,
            span=max(ranks) - min(ranks) + 1,
            dtype=whole[0].dtype,
            bytes=sum(array.bytes for array in whole),
            calls=times,
            path=path,
            phase=phase,
        )
        last = self.collectives[-1] if self.collectives else None
        if last is not None and {**last, "calls": 0} == {**cost, "calls": 0}:
            last["calls"] += times
        else:
            self.collectives.append(cost)

    def flops(self) -> dict[str, int]:
        """Return the floating-point operations by dtype."""
        return self._sums.flops()

    def operators(self) -> list[OperatorCost]:
        """Return the operators in the order of their places, names and shapes."""
        return self._sums.cost()

    def launches(self) -> int:
        """Return how many operators a rank does, before they are fused."""
        return self._sums.calls()

    def layers(self) -> dict[str, int]:
        """Return how many scopes a path with a star stands for."""
        return layers(self._paths, map(folded, self._paths))


def _host_work(instruction: Instruction) -> str:
    """Return what the host does in an instruction, as ``pure_callback``; empty for others."""
    opcode = instruction.opcode
    is_transfer = instruction.attributes.get("is_host_transfer") == "true"
    if opcode in _OF_HOST or (opcode in _MAYBE_OF_HOST and is_transfer):
        return opcode
    target = instruction.attributes.get("custom_call_target", "").strip('"')
    if not _CALLBACK.fullmatch(target):
        return ""
    return name_of(instruction).rpartition("/")[2] or "callback"


def _is_index(instruction: Instruction) -> bool:
    """Return whether an instruction computes one whole number: what loops and slices count."""
    return all(a.elements == 1 and not a.shape for a in instruction.arrays) and all(
        a.dtype.startswith(("int", "uint", "bool")) for a in instruction.arrays
    )


def _bytes(instruction: Instruction, inputs: Sequence[Array]) -> tuple[int, int]:
    """Return the bytes that an instruction reads and writes, each by itself."""
    written = sum(array.bytes for array in instruction.arrays)
    if instruction.opcode in _READS_RESULT:
        indices = inputs[1:] if instruction.opcode == "gather" else ()
        return written + sum(array.bytes for array in indices), written
    if instruction.opcode == "dynamic-update-slice":
        return inputs[1].bytes, inputs[1].bytes
    return sum(array.bytes for array in inputs), written


def _shapes(inputs: Sequence[Array]) -> str:
    if len(inputs) <= _MOST_SHAPES:
        return ", ".join(
            f"{'x'.join(map(str, array.shape)) or 'scalar'} {array.dtype}" for array in inputs
        )
    numbers: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for array in inputs:
        numbers[array.dtype] += array.elements
        counts[array.dtype] += 1
    return ", ".join(f"{counts[d]} tensors of {numbers[d]} {d}" for d in sorted(counts))
