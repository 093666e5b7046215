"""JSON schemas, from the files in the package."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import TYPE_CHECKING, Any, Final

import pytest_dlperf.core
from dlperf_reference.markdown import code, table
from dlperf_reference.source import PACKAGE, field_comments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SUFFIX: Final = ".schema.json"


def files() -> list[Path]:
    """Return every schema in the package."""
    return sorted(PACKAGE.rglob(f"*{SUFFIX}"))


def text() -> str:
    """Return a section for every schema: its objects, and the fields of each."""
    return "\n".join(_section(path) for path in files())


def _section(path: Path) -> str:
    schema = json.loads(path.read_text("utf-8"))
    place = path.relative_to(PACKAGE.parent).as_posix()
    parts = [f"## {code(path.name)}\n{schema['description']}\n\nFile: {code(place)}\n"]
    kinds = _types()
    for name, value in _objects(schema):
        if name:
            parts.append(f"### {name} ({path.name.removesuffix(SUFFIX)})\n")
        meanings = field_comments(kinds[name]) if name in kinds else {}
        parts.append(_fields(value, meanings))
    return "\n".join(parts)


def _objects(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and schema of every object; of the whole file's, the name is empty."""
    for value in (schema, *schema.get("oneOf", ())):
        if "properties" in value:
            yield "", value
    for name, value in sorted(schema.get("$defs", {}).items()):
        if "properties" in value:
            yield name, value


def _fields(schema: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        (
            code(name),
            _type(value),
            "" if name in needed else "may be left out",
            meanings.get(name, value.get("description", "")).replace("``", "`"),
        )
        for name, value in schema["properties"].items()
    ]
    return table(("field", "type", "", "meaning"), rows)


def _type(schema: Mapping[str, Any]) -> str:
    """Return a type in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(value) for value in schema[key])
    if "prefixItems" in schema:
        return f"[{', '.join(_type(value) for value in schema['prefixItems'])}]"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) else "object"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _types() -> dict[str, type]:
    """Return the types of ``core`` and of what schemas are made of, by name."""
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(pytest_dlperf.core.__path__, "pytest_dlperf.core."):
        values = vars(importlib.import_module(module.name))
        found |= {n: v for n, v in values.items() if isinstance(v, type)}
    return found
