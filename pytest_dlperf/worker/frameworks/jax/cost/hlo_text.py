"""Reads the text of an HLO module: computations, instructions, and where each comes from.

Its form is that of ``HloModule::ToString``:
https://github.com/openxla/xla/blob/main/xla/hlo/parser/hlo_parser.cc
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

#: NumPy's names of dtypes, by those of HLO; the float8 kinds follow a rule.
_DTYPES: Final = {
    "bf16": "bfloat16", "c128": "complex128", "c64": "complex64", "f16": "float16",
    "f32": "float32", "f64": "float64", "pred": "bool", "s16": "int16", "s32": "int32",
    "s4": "int4", "s64": "int64", "s8": "int8", "u16": "uint16", "u32": "uint32", "u4": "uint4",
    "u64": "uint64", "u8": "uint8",
}  # fmt: skip
_BITS: Final = {"bool": 8, "complex64": 64, "complex128": 128, "bfloat16": 16}
_ARRAY: Final = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
_HEAD: Final = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE: Final = re.compile(r"\s*([\w\-]+)\(")
_COMPUTATION: Final = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*)?\{$")
_COMMENT: Final = re.compile(r"/\*.*?\*/")
_ROW: Final = re.compile(r"(\d+) (.*)")
_NUMBER: Final = re.compile(r"(\w+)=(\d+)")
_OP_NAME: Final = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_OPENS, _CLOSES = "([{", ")]}"
#: The opcode that the calls of this pattern have here: they say how an array is placed, and show
#: it. Where programs are given to Shardy, or are partitioned, there are none.
ANNOTATION: Final = "annotation"
_PLACES: Final = re.compile(r'"(Sharding|SPMDFullToShardShape|SPMDShardToFullShape|xla\.sdy\..*)"')


class Array(NamedTuple):
    """The dtype and the shape of an array."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Return its bytes; a token has none."""
        return self.elements * bits_of(self.dtype) // 8


def bits_of(dtype: str) -> int:
    """Return the bits of a number; 0 for another thing, as a token."""
    if dtype.startswith("float8"):
        return 8
    digits = re.search(r"\d+$", dtype)
    return _BITS.get(dtype, int(digits[0]) if digits else 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction of a computation."""

    name: str
    opcode: str
    #: Of its results, those of a tuple one after the other.
    arrays: tuple[Array, ...]
    #: Names of instructions; of a constant its text.
    operands: tuple[str, ...]
    attributes: Mapping[str, str]


@dataclass(kw_only=True, slots=True)
class Computation:
    """Instructions by their names, in the order of the text."""

    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str = ""

    def inputs(self, instruction: Instruction) -> list[Array]:
        """Return the arrays of the operands of ``instruction``."""
        known = (self.instructions.get(name) for name in instruction.operands)
        return [array for operand in known if operand is not None for array in operand.arrays]


class Frame(NamedTuple):
    """A function on the stack of Python that made an instruction."""

    file: str
    function: str
    #: 0: the outermost.
    parent: int
    line: int = 0


@dataclass(kw_only=True, slots=True)
class Module:
    """A program."""

    computations: dict[str, Computation] = field(default_factory=dict)
    entry: str = ""
    frames: dict[int, Frame] = field(default_factory=dict)


def parsed(text: str) -> Module:
    """Return the module that ``text`` is; raise ``ValueError`` where it has no entry."""
    module = Module()
    tables: dict[str, dict[int, str]] = {}
    table: dict[int, str] = {}
    computation = Computation()
    for line in text.splitlines():
        if line in {"FileNames", "FunctionNames", "FileLocations", "StackFrames"}:
            table = tables.setdefault(line, {})
        elif (row := _ROW.fullmatch(line)) is not None:
            table[int(row[1])] = row[2]
        elif (head := _COMPUTATION.fullmatch(line)) is not None:
            computation = module.computations.setdefault(head[2], Computation())
            if head[1]:
                module.entry = head[2]
        elif (begin := _HEAD.match(line)) is not None:
            instruction = _instruction(begin[2], _COMMENT.sub("", line[begin.end() :]))
            computation.instructions[instruction.name] = instruction
            if begin[1]:
                computation.root = instruction.name
    if not module.entry:
        raise ValueError("a program of XLA is in a form that is not known here")
    module.frames = _frames(tables)
    return module


def _instruction(name: str, text: str) -> Instruction:
    end = _end_of_group(text, 0) if text.startswith("(") else text.index(" ")
    arrays = tuple(_arrays(text[:end]))
    opcode = _OPCODE.match(text, end)
    if opcode is None:
        raise ValueError(f"an instruction of XLA is in a form that is not known here: {text}")
    closed = _end_of_group(text, opcode.end() - 1)
    inner = text[opcode.end() : closed - 1]
    operands = (inner,) if opcode[1] == "constant" else tuple(map(_operand, split(inner)))
    parts = (part.partition("=") for part in split(text[closed:]))
    attributes = {key.strip(): value.strip() for key, _, value in parts if key.strip()}
    is_annotation = _PLACES.fullmatch(attributes.get("custom_call_target", ""))
    return Instruction(
        name=name,
        opcode=ANNOTATION if is_annotation else opcode[1],
        arrays=arrays,
        operands=operands,
        attributes=attributes,
    )


def name_of(instruction: Instruction) -> str:
    """Return the name that JAX gave an operation: ``jit(train)/jvp(mlp)/dot_general``."""
    name = _OP_NAME.search(instruction.attributes.get("metadata", ""))
    # Instructions that became one have the names of all
    return name[1].partition(";")[0] if name else ""


def _operand(text: str) -> str:
    return text.split()[-1].removeprefix("%") if text.strip() else ""


def _arrays(text: str) -> Iterator[Array]:
    for dtype, lengths in _ARRAY.findall(text):
        # A bound of a dynamic length is written <=8
        shape = tuple(
            int(length.strip().removeprefix("<=")) for length in lengths.split(",") if length
        )
        yield Array(dtype_of(dtype), shape)


def dtype_of(name: str) -> str:
    """Return NumPy's name of a dtype of HLO: ``float8_e4m3fn`` for ``f8e4m3fn``."""
    return f"float8_{name[2:]}" if name.startswith("f8") else _DTYPES.get(name, name)


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield the index of each character outside of quotes, it, and how deep in brackets it is.

    A bracket is as deep as what is outside of it.
    """
    depth, quoted = 0, False
    for index, character in enumerate(text):
        if character == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _CLOSES:
            depth -= 1
            yield index, character, depth
        else:
            yield index, character, depth
            depth += character in _OPENS


def _end_of_group(text: str, begin: int) -> int:
    """Return the index behind the bracket that closes the one at ``begin``."""
    for index, character, depth in _depths(text[begin:]):
        if character in _CLOSES and not depth:
            return begin + index + 1
    raise ValueError(f"a program of XLA has a bracket that nothing closes: {text[:200]}")


def split(text: str, at: str = ",") -> list[str]:
    """Return the parts of ``text`` between characters ``at`` outside of brackets and quotes."""
    ends = [index for index, character, depth in _depths(text) if character == at and not depth]
    begins = [0, *(end + 1 for end in ends)]
    return [text[begin:end] for begin, end in zip(begins, [*ends, len(text)], strict=True)]


def _frames(tables: Mapping[str, Mapping[int, str]]) -> dict[int, Frame]:
    """Return the frames of a module by their numbers; none where its text has no tables."""
    files, functions = (
        {number: text.strip('"') for number, text in tables.get(name, {}).items()}
        for name in ("FileNames", "FunctionNames")
    )
    locations, rows = (
        {number: _numbers(text) for number, text in tables.get(name, {}).items()}
        for name in ("FileLocations", "StackFrames")
    )
    frames = {}
    # Some versions write the number of the parent plus 1, so that the first is its own
    shift = rows[1].get("parent_frame_id", 0) if 1 in rows else 0
    for number, row in rows.items():
        location = locations.get(row.get("file_location_id", 0), {})
        frames[number] = Frame(
            file=files.get(location.get("file_name_id", 0), ""),
            function=functions.get(location.get("function_name_id", 0), ""),
            parent=max(0, row.get("parent_frame_id", 0) - shift),
            line=location.get("line", 0),
        )
    return frames


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _NUMBER.findall(text)}
