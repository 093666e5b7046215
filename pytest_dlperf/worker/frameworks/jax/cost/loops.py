"""Goes through a program of XLA: every instruction, and how often it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import (
    Computation,
    Instruction,
    Module,
    name_of,
    split,
)


class Visit(NamedTuple):
    """An instruction, and how often the step does it."""

    computation: Computation
    instruction: Instruction
    times: int
    #: Names of the calls around it, from which a name of an operation within goes on.
    within: str


class Visits:
    """All visits of a program."""

    def __init__(self, module: Module, amount: Callable[[Computation, Instruction], int]) -> None:
        """``amount`` returns the work of an instruction: the branch with the most of it counts."""
        self._module, self._amount = module, amount
        #: Loops whose number of rounds the program does not say.
        self.unknown_loops: list[Instruction] = []

    def __iter__(self) -> Iterator[Visit]:
        self.unknown_loops = []
        yield from self._inside(self._module.entry, 1, "")

    def _inside(self, name: str, times: int, within: str) -> Iterator[Visit]:
        computation = self._module.computations[name]
        for instruction in computation.instructions.values():
            yield Visit(computation, instruction, times, within)
            around = within
            if instruction.opcode == "call":
                around = f"{within}{name_of(instruction)}/"
            for inner, rounds in self._called(computation, instruction):
                yield from self._inside(inner, times * rounds, around)

    def _called(
        self, computation: Computation, instruction: Instruction
    ) -> Iterator[tuple[str, int]]:
        """Yield the computations that an instruction runs, and how often."""
        if instruction.opcode in {"call", "async-start"}:
            yield callee_of(instruction), 1
        elif instruction.opcode == "while":
            rounds = self.rounds_of(computation, instruction)
            if rounds is None:
                self.unknown_loops.append(instruction)
            yield callee_of(instruction), 1 if rounds is None else rounds
        elif instruction.opcode == "conditional":
            yield max(branches_of(instruction), key=self._amount_within), 1

    def _amount_within(self, name: str) -> int:
        inner = Visits(self._module, self._amount)
        visits = inner._inside(name, 1, "")
        return sum(v.times * self._amount(v.computation, v.instruction) for v in visits)

    def rounds_of(self, computation: Computation, loop: Instruction) -> int | None:
        """Return how often a ``while`` goes around; None where it does not count to a constant.

        A count begins at a constant, grows by a constant, and is compared with a constant: what
        ``lax.scan`` and ``lax.fori_loop`` of fixed bounds make.
        """
        condition = self._module.computations[_name(loop.attributes["condition"])]
        compared = _source(condition, condition.root)
        if compared is None or compared.opcode != "compare":
            return None
        left, right = compared.operands
        direction = compared.attributes.get("direction")
        if direction == "GT":
            left, right, direction = right, left, "LT"
        index, end = _index(condition, left), _constant(condition, right)
        if direction != "LT" or index is None or end is None:
            return None
        begin = _constant(computation, _element(computation, loop.operands[0], index))
        body = self._module.computations[callee_of(loop)]
        step = _step(body, _element(body, body.root, index), index)
        if begin is None or not step:
            return None
        return max(0, -(-(end - begin) // step))


def _step(body: Computation, name: str | None, index: int) -> int | None:
    """Return what ``name`` adds to the element ``index`` of the body's argument."""
    added = _source(body, name)
    if added is None or added.opcode != "add":
        return None
    for counter, step in (added.operands, tuple(reversed(added.operands))):
        if _index(body, counter) == index:
            return _constant(body, step)
    return None


def _source(computation: Computation, name: str | None) -> Instruction | None:
    """Return the instruction ``name``, or the one that it is a copy of."""
    instruction = computation.instructions.get(name or "")
    while instruction is not None and instruction.opcode in {"copy", "opt-barrier", "reshape"}:
        instruction = computation.instructions.get(instruction.operands[0])
    return instruction


def _constant(computation: Computation, name: str | None) -> int | None:
    instruction = _source(computation, name)
    if instruction is None or instruction.opcode != "constant":
        return None
    text = instruction.operands[0]
    return int(text) if text.lstrip("-").isdecimal() else None


def _index(computation: Computation, name: str | None) -> int | None:
    """Return which element of the argument ``name`` is; None where it is none."""
    instruction = _source(computation, name)
    if instruction is None or instruction.opcode != "get-tuple-element":
        return None
    argument = _source(computation, instruction.operands[0])
    if argument is None or argument.opcode != "parameter":
        return None
    return int(instruction.attributes["index"])


def _element(computation: Computation, name: str, index: int) -> str | None:
    """Return the name of the element ``index`` of the tuple ``name``."""
    instruction = _source(computation, name)
    if instruction is None or instruction.opcode != "tuple":
        return None
    return instruction.operands[index]


def callee_of(instruction: Instruction) -> str:
    """Return the name of the computation that a call, or each round of a loop, runs."""
    attribute = {"call": "to_apply", "async-start": "calls", "while": "body"}[instruction.opcode]
    return _name(instruction.attributes[attribute])


def branches_of(instruction: Instruction) -> list[str]:
    """Return the names of the computations that a conditional may run."""
    given = instruction.attributes.get("branch_computations")
    if given is not None:
        return [_name(part) for part in split(given.strip("{}"))]
    names = ("true_computation", "false_computation")
    return [_name(instruction.attributes[name]) for name in names]


def _name(text: str) -> str:
    return text.strip().removeprefix("%")
