"""The JSON schemas of all ``--json`` outputs, made from the types they are encoded from.

``python -m pytest_dlperf.report.schemas`` writes their files again.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.command_results import Checked, HistoryFound, NodeEffects
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.outcome import DERIVED, RESULTS_FORMAT, Outcome

#: Version of the shapes that commands print. 1: the first.
FORMAT: Final = 1
_SCALARS: Final[Mapping[Any, str]] = {
    str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null",
}  # fmt: skip


def results_schema() -> dict[str, Any]:
    """Return the schema of results files (JSON Schema, draft 2020-12)."""
    definitions: dict[str, Any] = {}
    outcome = _schema_of(Outcome, definitions)
    _move(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-dlperf results",
        "description": "What --dlperf-json writes. Every rate is global, in the case's unit per "
        "second; what was not measured is null.",
        "type": "object",
        "properties": {
            "format": {"const": RESULTS_FORMAT},
            "outcomes": {"type": "array", "items": outcome},
            "packages": _schema_of(Mapping[str, Mapping[str, str]], definitions),
        },
        "required": ["format", "outcomes"],
        "additionalProperties": False,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_of(kind: type, version: int, *, title: str, description: str) -> dict[str, Any]:
    """Return the schema of a dataclass whose JSON has a ``format`` beside its fields."""
    definitions: dict[str, Any] = {}
    _schema_of(kind, definitions)
    whole = definitions.pop(kind.__name__)
    _add(whole, format={"const": version})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        **whole,
        "$defs": dict(sorted(definitions.items())),
    }


def _move(definitions: dict[str, Any]) -> None:
    """Put the figures where ``outcome_to_json`` puts them."""
    _add(definitions["Case"], id={"type": "string"})
    number: dict[str, Any] = {"type": ["number", "null"]}
    _add(definitions["Measurement"], **dict.fromkeys(DERIVED, number))
    # Each list of packages is there once, beside the outcomes
    del definitions["Environment"]["properties"]["packages"]
    definitions["Environment"]["required"].remove("packages")
    judgement = definitions["Judgement"]
    throughput = definitions["Comparison"]["properties"]
    del judgement["properties"]["throughput"]
    judgement["required"].remove("throughput")
    _add(judgement, **{k: v for k, v in throughput.items() if k != "verdict"})
    text = {"type": "string"}
    _add(judgement, code=text, codes={"type": "array", "items": text})
    judgement["properties"]["reason"] = {"type": "string", "minLength": 1}


def _add(schema: dict[str, Any], **properties: Any) -> None:
    schema["properties"] |= properties
    schema["required"] = sorted({*schema["required"], *properties})


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind is Layout:
        return {"type": "string", "pattern": "^[0-9]+n[0-9]+[gc]$"}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind):
        return _dataclass_schema(typing.cast("type", kind), definitions)
    return _generic_schema(kind, definitions)


def _dataclass_schema(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        definitions[kind.__name__] |= {
            "type": "object",
            "properties": {name: _schema_of(hints[name], definitions) for name in names},
            "required": sorted(names),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _generic_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in {typing.Union, types.UnionType}:
        return _union_schema([_schema_of(option, definitions) for option in inner])
    if origin is tuple:
        return _tuple_schema(inner, definitions)
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(inner[1], definitions)}
    raise TypeError(f"no JSON schema for {kind}")


def _union_schema(options: list[dict[str, Any]]) -> dict[str, Any]:
    if all(list(option) == ["type"] for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _tuple_schema(inner: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _schema_of(inner[0], definitions)}
    return {
        "type": "array",
        "prefixItems": [_schema_of(kind, definitions) for kind in inner],
        "minItems": len(inner),
        "maxItems": len(inner),
    }


def judged_schema() -> dict[str, Any]:
    """Return the schema of what ``dlperf judge --json`` prints about logs."""
    definitions = results_schema()["$defs"]
    judgement = definitions["Judgement"]
    text = {"type": "string"}
    problem = {
        "type": "object",
        "properties": {"side": {"enum": ["base", "current"]}, "code": text, "message": text},
        "required": ["code", "message", "side"],
        "additionalProperties": False,
    }
    training = {
        **judgement,
        "properties": {
            **judgement["properties"],
            "training": text,
            "problems": {"type": "array", "items": problem},
        },
        "required": sorted({*judgement["required"], "training", "problems"}),
    }
    alone = {
        **training,
        "properties": {**training["properties"], "format": {"const": FORMAT}},
        "required": sorted({*training["required"], "format"}),
    }
    several = {
        "type": "object",
        "properties": {
            "format": {"const": FORMAT},
            "trainings": {"type": "array", "items": training},
        },
        "required": ["format", "trainings"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-dlperf verdicts on logs",
        "description": "What dlperf judge --json prints of one training, and of several in the "
        "logs. Of several cases of results files it prints a results file "
        "(outcomes.schema.json). Rates are global, in the training's unit per second.",
        "oneOf": [alone, several],
        "$defs": {name: definitions[name] for name in ("Comparison", "Finding")},
    }


def checked_schema() -> dict[str, Any]:
    """Return the schema of ``dlperf baselines check --json``."""
    return schema_of(
        Checked,
        FORMAT,
        title="pytest-dlperf check of baselines",
        description="What dlperf baselines check --json prints: each stored session judged "
        "against the others of its level. Shares are of 1.",
    )


def history_schema() -> dict[str, Any]:
    """Return the schema of ``dlperf history … --json``."""
    return schema_of(
        HistoryFound,
        FORMAT,
        title="pytest-dlperf history",
        description="What list, series, changes and bisect of dlperf history print with --json. "
        "Rates are in the unit a second, shares of 1; what was not measured is null.",
    )


def nodes_schema() -> dict[str, Any]:
    """Return the schema of ``dlperf nodes --json``."""
    return schema_of(
        NodeEffects,
        FORMAT,
        title="pytest-dlperf comparison of nodes",
        description="What dlperf nodes --json prints: log throughput = case + "
        "node, by least squares. Shares are of 1; what cannot be compared is null.",
    )


#: By the name of its file, which is next to this module: ``outcomes.schema.json`` ...
SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "outcomes": results_schema,
    "judged": judged_schema,
    "checked": checked_schema,
    "history": history_schema,
    "nodes": nodes_schema,
}


def file_of(name: str) -> Path:
    """Return the file of a schema."""
    return Path(__file__).with_name(f"{name}.schema.json")


def render(name: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(SCHEMAS[name](), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in SCHEMAS:
        file_of(name).write_text(render(name), encoding="utf-8")
