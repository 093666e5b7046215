"""Where in a program an instruction comes from: its named scopes, else its function; its phase."""

from __future__ import annotations

import ast
import linecache
import re
from pathlib import Path
from typing import Final

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import (
    Instruction,
    Module,
    name_of,
    split,
)

#: Parts of an operation's name that JAX puts there, and no program.
_OF_JAX: Final = frozenset({
    "body", "checkpoint", "closed_call", "cond", "core_call", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr", "jit", "pjit", "remat", "remat2",
    "rematted_computation", "scan", "shard_map", "while",
})  # fmt: skip
_BRANCH: Final = re.compile(r"branch_\d+_fun")
#: What JAX writes around the name of a function or a scope: ``jvp(mlp)``.
_AROUND: Final = re.compile(r"(\w+)\((.*)\)")
#: Of those, what goes around scopes; others go around functions.
_TRANSFORMS: Final = frozenset({"jvp", "transpose", "vmap"})
_FRAME: Final = re.compile(r"stack_frame_id=(\d+)")
#: In place of it in versions that keep the innermost frame alone.
_SOURCE: Final = re.compile(r'source_file="([^"]*)" source_line=(\d+)')


class HloPlaces:
    """Names the places of a module's instructions."""

    def __init__(self, module: Module, places: Places) -> None:
        self._frames, self._places = module.frames, places
        self._functions: dict[int, str] = {}
        self._lines: dict[str, dict[int, str]] = {}

    def place_of(self, instruction: Instruction, within: str = "") -> tuple[str, str]:
        """Return the path and the phase of an instruction, in calls that are named ``within``."""
        name = f"{within}{name_of(instruction)}"
        path = ".".join(scopes_of(name))
        if not path:
            metadata = instruction.attributes.get("metadata", "")
            if (frame := _FRAME.search(metadata)) is not None:
                path = self._function(int(frame[1]))
            elif (source := _SOURCE.search(metadata)) is not None:
                path = self._function_at(source[1], int(source[2]))
        return path, phase_of(name)

    def line_of(self, instruction: Instruction) -> str:
        """Return the innermost line of the program that made an instruction; empty if none is."""
        metadata = instruction.attributes.get("metadata", "")
        known = _FRAME.search(metadata)
        frame = self._frames.get(int(known[1])) if known else None
        while frame is not None:
            if self._places.is_program(frame.file):
                return self._places.named(frame.file, frame.line)
            frame = self._frames.get(frame.parent)
        source = _SOURCE.search(metadata)
        if source is None or not self._places.is_program(source[1]):
            return ""
        return self._places.named(source[1], int(source[2]))

    def _function(self, number: int) -> str:
        """Return the innermost function of the program: ``jax_model.block``; empty if none is."""
        if number in self._functions:
            return self._functions[number]
        frame = self._frames.get(number)
        if frame is None:
            return ""
        # Without the functions around it, which only newer Pythons name
        name = frame.function.rpartition(".")[2]
        if name.startswith("<") or not self._places.is_program(frame.file):
            path = self._function(frame.parent) if frame.parent else ""
        else:
            path = f"{Path(frame.file).stem}.{name}"
        self._functions[number] = path
        return path

    def _function_at(self, file: str, line: int) -> str:
        """Return the innermost function around a line of the program; empty if none is."""
        if not self._places.is_program(file):
            return ""
        if file not in self._lines:
            self._lines[file] = _functions_by_line("".join(linecache.getlines(file)))
        name = self._lines[file].get(line)
        return f"{Path(file).stem}.{name}" if name else ""


def _functions_by_line(source: str) -> dict[int, str]:
    functions = {}
    # Those within others come after them
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            functions.update(dict.fromkeys(range(node.lineno, last + 1), node.name))
    return functions


def scopes_of(name: str) -> list[str]:
    """Return the scopes that a program named (``jax.named_scope``), from the outermost in.

    ``name`` is as ``jit(train)/transpose(jvp(blocks))/while/body/mlp/dot_general``, whose last
    part is the operation.
    """
    return [scope for part in split(name, "/")[:-1] for scope in _scopes(part)]


def _scopes(part: str) -> list[str]:
    around = _AROUND.fullmatch(part)
    if around is None:
        # An einsum names itself, as in BTNH,BSNH->BNTS
        is_of_jax = not part or part in _OF_JAX or "->" in part or _BRANCH.fullmatch(part)
        return [] if is_of_jax else part.split(".")
    if around[1] not in _TRANSFORMS:
        return []
    return [scope for inner in split(around[2], "/") for scope in _scopes(inner)]


def phase_of(name: str) -> str:
    """Return ``forward`` or ``backward`` of what is differentiated, ``rest`` of what is not."""
    if "transpose(" in name:
        return "backward"
    return "forward" if "jvp(" in name else "rest"
