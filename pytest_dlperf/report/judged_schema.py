"""The JSON schema of what ``dlperf judge --json`` says of logs; ``python -m`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.report.results_schema import results_schema

FILE: Final = Path(__file__).with_name("judged.schema.json")
#: Version of the two shapes. 1: the first.
FORMAT: Final = 1


def judged_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    known = results_schema()["$defs"]
    judgement = known["Judgement"]
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
        "description": "What dlperf judge --json prints of one training, and of several that logs "
        "tell of. Of several cases of results files it prints a results file "
        "(outcomes.schema.json). Rates are global, in the training's unit per second.",
        "oneOf": [alone, several],
        "$defs": {"Comparison": known["Comparison"]},
    }


def render() -> str:
    """Return the text of the schema's file."""
    return json.dumps(judged_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
