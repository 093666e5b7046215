"""The bytes that a program of XLA holds at once, before its operators are fused, and whose.

They follow from the program alone. What XLA itself says of a compiled program,
``compiled.memory_analysis()``, is of the machine that it is compiled for: on a CPU bfloat16 is
float32 there. Arguments and results are the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_dlperf.core.wire_cost import FUNCTION_KINDS, LiveCost, MemoryCost
from pytest_dlperf.worker.cost.folded_paths import folded
from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import Instruction, Module, name_of
from pytest_dlperf.worker.frameworks.jax.cost.loops import branches_of, callee_of
from pytest_dlperf.worker.frameworks.jax.cost.order import order_of
from pytest_dlperf.worker.frameworks.jax.cost.places import HloPlaces
from pytest_dlperf.worker.frameworks.jax.cost.values import Value, Values

_ARGUMENTS, _OUTPUTS, _TEMPORARIES = FUNCTION_KINDS
#: Instructions that read all of an operand before, or in another order than, they write.
_OUT_OF_PLACE: Final = frozenset({
    "all-gather", "all-to-all", "cholesky", "collective-permute", "concatenate", "convolution",
    "custom-call", "dot", "fft", "gather", "pad", "ragged-all-to-all", "ragged-dot", "reduce",
    "reduce-scatter", "reduce-window", "reverse", "select-and-scatter", "slice", "sort",
    "triangular-solve",
})  # fmt: skip
#: Those that write into their first operand.
_INTO_FIRST: Final = frozenset({"dynamic-update-slice", "scatter"})


@dataclass(eq=False, slots=True)
class _Buffer:
    bytes: int
    path: str = ""
    kind: str = _TEMPORARIES
    #: Values that it holds, and one more where its owner keeps it.
    holds: int = 1
    #: Whether another computation has counted it.
    is_lent: bool = False


@dataclass(slots=True)
class _Peak:
    bytes: int
    live: Counter[tuple[str, str]]
    #: Of the results of the computation.
    results: list[_Buffer]


def memory_of(module: Module, places: HloPlaces, donated: Sequence[bool]) -> MemoryCost:
    """Return the peak of a program, and what is alive then.

    ``donated`` says of its arguments whether it may write into their memory.
    """
    entry = module.computations[module.entry]
    numbers = {
        name: int(instruction.operands[0])
        for name, instruction in entry.instructions.items()
        if instruction.opcode == "parameter"
    }
    # Tokens of effects come first
    tokens = len(numbers) - len(donated)
    computations = _Computations(module, places)
    values = computations.values(module.entry)
    buffers: dict[Value, _Buffer] = {}
    for name, number in numbers.items():
        is_kept = number < tokens or not donated[number - tokens]
        for value in values.of[name]:
            if value.readers or value.is_result:
                buffers[value] = _Buffer(value.bytes, "", _ARGUMENTS, holds=1 + is_kept)
    peak = computations.peak(module.entry, buffers, "", is_entry=True)
    kinds = dict.fromkeys(FUNCTION_KINDS, 0)
    for (_, kind), size in peak.live.items():
        kinds[kind] += size
    at_peak = sorted((-size, path, kind) for (path, kind), size in peak.live.items() if size)
    return MemoryCost(
        peak_bytes=peak.bytes,
        by_kind=kinds,
        at_peak=[LiveCost(path=path, kind=kind, bytes=-size) for size, path, kind in at_peak],
    )


class _Computations:
    """Finds the peaks of computations, those that they call among them."""

    def __init__(self, module: Module, places: HloPlaces) -> None:
        self._module, self.places = module, places
        self._values: dict[str, Values] = {}
        self._orders: dict[str, list[str]] = {}

    def values(self, name: str) -> Values:
        if name not in self._values:
            self._values[name] = Values(self._module.computations[name])
        return self._values[name]

    def peak(
        self, name: str, given: Mapping[Value, _Buffer], within: str, *, is_entry: bool = False
    ) -> _Peak:
        """Return the peak of a computation, without what is lent to it.

        ``given`` are the buffers of its parameters; of the entry's results the kind is outputs.
        """
        values = self.values(name)
        if name not in self._orders:
            self._orders[name] = order_of(values)
        run = _Run(self, self._module.computations[name].instructions, values, given, within)
        for each in self._orders[name]:
            run.do(each)
        results = [run.buffers[value] for value in values.results]
        if is_entry:
            for buffer in results:
                if buffer.kind == _TEMPORARIES:
                    buffer.kind = _OUTPUTS
        return _Peak(run.peak, run.live_at_peak(), results)

    def parameters(self, name: str) -> list[Value]:
        """Return the values that a computation is given, in the order of its arguments."""
        values, numbered = self.values(name), []
        for each, instruction in self._module.computations[name].instructions.items():
            if instruction.opcode == "parameter":
                numbered.append((int(instruction.operands[0]), values.of[each]))
        return [value for _, own in sorted(numbered, key=lambda item: item[0]) for value in own]


@dataclass(slots=True)
class _Run:
    """A computation while it is done, in which each buffer lives until its last reader."""

    computations: _Computations
    instructions: Mapping[str, Instruction]
    values: Values
    given: Mapping[Value, _Buffer]
    within: str
    peak: int = 0
    buffers: dict[Value, _Buffer] = field(init=False)
    _left: dict[Value, int] = field(init=False)
    #: A buffer, and by how many bytes it grew.
    _events: list[tuple[_Buffer, int]] = field(init=False)
    _peak_events: int = 0
    _peak_within: Counter[tuple[str, str]] = field(default_factory=Counter)
    _now: int = 0

    def __post_init__(self) -> None:
        self.buffers, self._left, self._events = dict(self.given), {}, []
        for own in self.values.of.values():
            for value in own:
                self._left[value] = len(value.readers) + value.is_result
                self.buffers.setdefault(value, _Buffer(0))
        for buffer in self.given.values():
            self._grow(buffer, buffer.bytes)
        self._look(Counter())

    def do(self, name: str) -> None:
        """Do an instruction, and free what nothing reads after it."""
        instruction, read = self.instructions[name], self.values.read[name]
        made = self.values.of[name]
        if instruction.opcode == "opt-barrier":
            for value, shown in zip(made, read, strict=True):
                self._share(value, self.buffers[shown])
        elif instruction.opcode == "while":
            self._loop(instruction, made, read)
        elif instruction.opcode in {"call", "conditional", "async-start"}:
            self._call(instruction, made, read)
        else:
            path = self._path(instruction)
            for value in made:
                self._make(value, path, self._taken(instruction, value, read))
        self._look(Counter())
        for value in dict.fromkeys(read):
            self._release(value)
        for value in made:
            if not self._left[value]:
                self._left[value] = 1
                self._release(value)

    def live_at_peak(self) -> Counter[tuple[str, str]]:
        """Return the bytes at the peak, by path and kind."""
        sizes: Counter[_Buffer] = Counter()
        for buffer, growth in self._events[: self._peak_events]:
            sizes[buffer] += growth
        live = Counter(self._peak_within)
        for buffer, size in sizes.items():
            live[buffer.path, buffer.kind] += size
        return live

    def _path(self, instruction: Instruction) -> str:
        return folded(self.computations.places.place_of(instruction, self.within)[0])

    def _taken(
        self, instruction: Instruction, value: Value, read: Sequence[Value]
    ) -> _Buffer | None:
        """Return the buffer of an operand that the result takes; None where it takes none."""
        if instruction.opcode in _OUT_OF_PLACE:
            return None
        if instruction.opcode in _INTO_FIRST:
            read = read[:1]
        for operand in read:
            buffer = self.buffers[operand]
            if self._left[operand] == 1 == buffer.holds and buffer.bytes == value.bytes:
                return buffer
        return None

    def _loop(
        self, instruction: Instruction, made: Sequence[Value], read: Sequence[Value]
    ) -> None:
        """Do a loop: what its rounds change is in memory of its own, or in that of operands."""
        body = callee_of(instruction)
        parameters, results = (
            self.computations.parameters(body),
            self.computations.values(body).results,
        )
        path, lent = self._path(instruction), {}
        for value, operand, inner, result in zip(made, read, parameters, results, strict=True):
            is_kept = inner is result
            buffer = self.buffers[operand]
            if is_kept:
                self._share(value, buffer)
            else:
                is_last = self._left[operand] == 1 == buffer.holds
                fits = is_last and buffer.bytes == value.bytes
                self._make(value, path, buffer if fits else None)
            lent[inner] = _Buffer(inner.bytes, holds=1 + is_kept, is_lent=True)
        peak = self.computations.peak(body, lent, self.within)
        self._look(peak.live, peak.bytes)

    def _call(
        self, instruction: Instruction, made: Sequence[Value], read: Sequence[Value]
    ) -> None:
        """Do a call, or the branch that holds most."""
        is_call = instruction.opcode != "conditional"
        names = [callee_of(instruction)] if is_call else branches_of(instruction)
        within = f"{self.within}{name_of(instruction)}/" if is_call else self.within
        # The first operand of a conditional says which branch; those of each branch follow
        begin, peaks = 0 if is_call else 1, []
        for name in names:
            parameters = self.computations.parameters(name)
            lent = {inner: _Buffer(inner.bytes, holds=2, is_lent=True) for inner in parameters}
            owners = dict(zip(lent.values(), read[begin:], strict=False))
            peaks.append((self.computations.peak(name, lent, within), owners))
            begin += len(parameters)
        peak, owners = max(peaks, key=lambda item: item[0].bytes)
        self._look(peak.live, peak.bytes)
        path = self._path(instruction)
        for value, result in zip(made, peak.results, strict=True):
            owner = owners.get(result)
            if owner is None:
                self._make(value, result.path or path, None)
            else:
                self._share(value, self.buffers[owner])

    def _make(self, value: Value, path: str, taken: _Buffer | None) -> None:
        if taken is not None:
            self._share(value, taken)
            return
        buffer = _Buffer(value.bytes, path)
        self.buffers[value] = buffer
        self._grow(buffer, buffer.bytes)

    def _share(self, value: Value, buffer: _Buffer) -> None:
        self.buffers[value] = buffer
        buffer.holds += 1

    def _release(self, value: Value) -> None:
        self._left[value] -= 1
        if self._left[value]:
            return
        buffer = self.buffers[value]
        buffer.holds -= 1
        if not buffer.holds:
            self._grow(buffer, -buffer.bytes)

    def _grow(self, buffer: _Buffer, growth: int) -> None:
        if growth and not buffer.is_lent:
            self._now += growth
            self._events.append((buffer, growth))

    def _look(self, within: Counter[tuple[str, str]], inner_bytes: int = 0) -> None:
        """Note the peak, if it is now, with so many bytes in a computation that is called."""
        if self._now + inner_bytes > self.peak:
            self.peak = self._now + inner_bytes
            self._peak_events, self._peak_within = len(self._events), within
