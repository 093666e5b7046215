"""Find pronouns that became names: ``python tests/static/names.py``.

In a function of a few lines a single ``one`` is clear; in a longer one, or beside a second
pronoun, nothing says which noun is meant. It reads the product and the benchmarks, or the paths
that are given. Ends with 1 and a line for each place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: Names that stand for a noun.
PRONOUNS: Final = frozenset(
    (
        *("at", "both", "found", "known", "more", "said", "seen", "told"),
        *("one", "ones", "other", "others", "such"),
        *("it", "that", "them", "these", "this", "those"),
        *("mine", "ours", "theirs"),
    )
)
#: Functions whose name begins without its noun. In a class method the class is the noun.
NO_NOUN: Final = re.compile(r"_?(?:(?:of|by)(?:_\w+)?|in|on|to|with|without)")
#: A third of a screen: below it, one pronoun is clear.
SHORT_LINES: Final = 17
#: Keys of files and of the marker: they stay as users know them.
KEYS: Final = frozenset(
    {
        "Case.known",
        "Devices.seen",
        "EnvironmentBlock.others",
        "GpuRecord.others",
        "Judgement.known",
    }
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Places = Iterator[tuple[int, str]]


def main(paths: list[Path]) -> int:
    """Print what is refused, and return the exit code."""
    count = 0
    roots = paths or [ROOT / "pytest_dlperf", ROOT / "benchmarks"]
    for file in sorted(file for root in roots for file in _files(root)):
        name = file.resolve().relative_to(ROOT).as_posix()
        for line, message in sorted(refused(ast.parse(file.read_text("utf-8")))):
            count += 1
            print(f"{name}:{line}: {message}")
    return int(count > 0)


def _files(root: Path) -> list[Path]:
    return list(root.rglob("*.py")) if root.is_dir() else [root]


def refused(tree: ast.Module) -> Places:
    """Yield what is refused in a module, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _fields(node)
        if isinstance(node, Function):
            yield from _name(node)
            yield from _bound(node)


def _name(function: Function) -> Places:
    """Yield a function whose name has no noun."""
    is_constructor = any(
        isinstance(decorator, ast.Name) and decorator.id in {"classmethod", "staticmethod"}
        for decorator in function.decorator_list
    )
    has_noun = is_constructor or not NO_NOUN.fullmatch(function.name)
    if function.name.lstrip("_") in PRONOUNS or not has_noun:
        yield function.lineno, f"the function {function.name} has no noun"


def _fields(holder: ast.ClassDef) -> Places:
    """Yield the fields of a class, and the attributes that its methods set, that are pronouns."""
    for node in holder.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _field(holder, node.target.id, node.lineno)
        if isinstance(node, Function):
            for target in ast.walk(node):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    yield from _field(holder, target.attr, target.lineno)


def _field(holder: ast.ClassDef, name: str, line: int) -> Places:
    if name.lstrip("_") in PRONOUNS and f"{holder.name}.{name}" not in KEYS:
        yield line, f"the field {holder.name}.{name} has no noun"


def _bound(function: Function) -> Places:
    """Yield the pronouns that a function binds, if it is long or has two of them.

    Each loop and each comprehension binds a name of its own.
    """
    names = {
        (name, binding): line
        for name, binding, line in _bindings(function)
        if name.lstrip("_") in PRONOUNS
    }
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if len(names) > 1 or (names and lines > SHORT_LINES):
        why = f"{lines} lines" if lines > SHORT_LINES else "two of them"
        for (name, _), line in names.items():
            yield line, f"{name} in {function.name} ({why})"


def _bindings(function: Function) -> Iterator[tuple[str, ast.AST, int]]:
    """Yield each name that a function binds, with what binds it and the line."""
    nodes = list(_nodes(function))
    loops = {
        target: node
        for node in nodes
        if isinstance(node, ast.For | ast.comprehension)
        for target in ast.walk(node.target)
    }
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, loops.get(node, function), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, function, node.lineno


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below one, without those of functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef):
            yield child
            yield from _nodes(child)


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:]]))
