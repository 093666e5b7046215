"""Plain values as YAML, without a library: this package writes a little of it and reads none.

Every text is written as JSON writes it, which YAML reads as the same text; so that none is taken
for a number, a date or a boolean.
"""

from __future__ import annotations

import json
from typing import Any


def yaml_text(value: Any) -> str:
    """Return mappings, lists, texts, numbers and booleans as a YAML document."""
    return "\n".join(["---", *_lines(value)]) + "\n"


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{key}:", item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _item(item)]
    return [json.dumps(value)]


def _entry(key: str, value: Any) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [key, *(f"  {line}" for line in _lines(value))]
    return [f"{key} {json.dumps(value)}"]


def _item(value: Any) -> list[str]:
    first, *others = _lines(value)
    return [f"- {first}", *(f"  {line}" for line in others)]
