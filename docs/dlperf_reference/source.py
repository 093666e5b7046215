"""Reads the package's source: what it names without a list of its own."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_dlperf

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(pytest_dlperf.__file__).parent
#: In a wheel; in a checkout the suites lie beside the package.
SUITES = PACKAGE / "suites"
if not SUITES.is_dir():
    SUITES = PACKAGE.parent / "perf_tests"
_VARIABLE = re.compile(r"DLPERF_[A-Z_]+")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path below the package and the syntax of every module, and of the suites."""
    own = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(SUITES)]
    for top, paths in ((PACKAGE, own), (SUITES, SUITES.rglob("*.py"))):
        for path in sorted(paths):
            name = path.relative_to(top).as_posix()
            yield name if top == PACKAGE else f"suites/{name}", ast.parse(path.read_text("utf-8"))


def problem_codes() -> dict[str, set[str]]:
    """Return every problem code, with the modules that give it.

    Codes are what ``Problem(code=...)``, ``WorkerFailure(code, ...)`` and records of failures
    name: a text, or a constant of any module; and what a child process puts into a queue.
    """
    found: dict[str, set[str]] = {}
    trees = dict(modules())
    constants = {name: text for tree in trees.values() for name, text in _constants(tree).items()}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            for text in _codes(node, constants):
                found.setdefault(text, set()).add(name)
    return found


#: Place of the code among the arguments of what makes a finding.
_PLACES = {"with_finding": 1, "metric_finding": 2, "_finding": 0, "_lead": 0}
#: What makes a finding with a code that is named.
_NAMED = {"Finding", "plain_judgement"}


def finding_codes() -> dict[str, set[str]]:
    """Return every code of a finding, with the modules that give it.

    Codes are what ``Finding(code=...)`` and the functions that make one are given, what a weight
    follows in a table, and what a loop calls ``code``.
    """
    found: dict[str, set[str]] = {}
    trees = dict(modules())
    constants = {name: text for tree in trees.values() for name, text in _constants(tree).items()}
    for name, tree in trees.items():
        for value in (value for node in ast.walk(tree) for value in _finding_codes(node)):
            text = constants.get(value.id) if isinstance(value, ast.Name) else _text(value)
            if text is not None:
                found.setdefault(text, set()).add(name)
    return found


def _finding_codes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what stands for a code of a finding in a node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _NAMED:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
        place = _PLACES.get(node.func.id)
        if place is not None:
            yield from node.args[place : place + 1]
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_weight(node.elts[1]):
        yield node.elts[0]
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
        target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
        if isinstance(target, ast.Name) and target.id == "code":
            yield from (row.elts[0] for row in node.iter.elts if isinstance(row, ast.Tuple))


def _is_weight(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Weight"
    )


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def variables() -> set[str]:
    """Return every variable of the environment that has this plugin's name."""
    return {
        text
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for text in _VARIABLE.findall(node.value)
    }


def _codes(node: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in _NAMED | _PLACES.keys():
        return  # a finding, which has codes of its own
    given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
    if isinstance(node.func, ast.Name) and node.func.id == "WorkerFailure" and node.args:
        given.append(node.args[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr == "put":
        given += [a.elts[0] for a in node.args if isinstance(a, ast.Tuple) and a.elts]
    for value in given:
        if isinstance(value, ast.Name) and value.id in constants:
            yield constants[value.id]
        for part in ast.walk(value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module's own names stand for."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def read_variables() -> set[str]:
    """Return the variables that the code asks the environment for by a text."""
    return {
        node.value
        for _, tree in modules()
        for call in ast.walk(tree)
        for node in _asked(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def field_comments(kind: type) -> dict[str, str]:
    """Return the ``#:`` comment above each field of a class, by the field's name."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        text = line.strip()
        if text.startswith("#:"):
            above.append(text[2:].strip())
            continue
        name, colon, _ = text.partition(":")
        if colon and name.isidentifier() and above:
            found[name] = " ".join(above)
        above = []
    return found


def _asked(node: ast.AST) -> list[ast.expr]:
    """Return what a node asks ``environ`` for: an item, ``get``, or ``in``."""
    if isinstance(node, ast.Subscript) and _is_environ(node.value):
        return [node.slice]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return list(node.args[:1]) if _is_environ(node.func.value) else []
    if isinstance(node, ast.Compare) and any(_is_environ(right) for right in node.comparators):
        return [node.left]
    return []


def _is_environ(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in {"environ", "environment"}
