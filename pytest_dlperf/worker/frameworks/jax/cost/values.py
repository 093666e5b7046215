"""What the instructions of a computation make and read, where views show what others made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import ANNOTATION, Computation, Instruction

#: Instructions that show what their operands are: XLA makes no other array for them, or gives
#: them to those that read them.
_VIEWS: Final = frozenset({
    ANNOTATION, "add-dependency", "async-done", "bitcast", "broadcast", "copy", "domain",
    "get-tuple-element", "reshape", "transpose", "tuple",
})  # fmt: skip
#: Those that are there before anything is done, or whose numbers nothing has to hold.
_GIVEN: Final = frozenset(
    {"after-all", "constant", "iota", "parameter", "partition-id", "replica-id"}
)


@dataclass(eq=False, slots=True)
class Value:
    """An array that an instruction makes."""

    bytes: int
    #: Name of the instruction.
    maker: str
    #: Names of the instructions that read it, of each once.
    readers: list[str] = field(default_factory=list)
    #: Whether it is among the results of the computation.
    is_result: bool = False


class Values:
    """The values of a computation."""

    def __init__(self, computation: Computation) -> None:
        #: By the name of the instruction that makes or shows them.
        self.of: dict[str, tuple[Value, ...]] = {}
        #: What each instruction reads that is no view, in the order of its operands; in that of
        #: the text, in which each follows what it reads.
        self.read: dict[str, list[Value]] = {}
        for name, instruction in computation.instructions.items():
            operands = [self.of[operand] for operand in instruction.operands if operand in self.of]
            if instruction.opcode in _VIEWS and operands:
                self.of[name] = _shown(instruction, operands)
                continue
            is_given = instruction.opcode in _GIVEN
            sizes = [
                array.bytes if instruction.opcode == "parameter" or not is_given else 0
                for array in instruction.arrays
            ]
            self.of[name] = tuple(Value(size, name) for size in sizes)
            if not is_given:
                self._reads(name, operands)
        self.results = self.of[computation.root]
        for value in self.results:
            value.is_result = True

    def _reads(self, name: str, operands: list[tuple[Value, ...]]) -> None:
        self.read[name] = [value for operand in operands for value in operand]
        for value in self.read[name]:
            if name not in value.readers[-1:]:
                value.readers.append(name)


def _shown(instruction: Instruction, operands: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    if instruction.opcode == "tuple":
        return tuple(value for operand in operands for value in operand)
    shown = operands[0]
    if instruction.opcode == "get-tuple-element":
        index = int(instruction.attributes["index"])
        # Of a tuple of tuples all is held
        return shown[index : index + 1] if len(instruction.arrays) == 1 else shown
    return shown
