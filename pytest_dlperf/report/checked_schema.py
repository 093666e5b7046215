"""The JSON schema of ``dlperf baselines check --json``; ``python -m`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.findings import Checked
from pytest_dlperf.report.results_schema import schema_of

FILE: Final = Path(__file__).with_name("checked.schema.json")
#: Version of the shape. 1: the first.
FORMAT: Final = 1


def checked_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    return schema_of(
        Checked,
        FORMAT,
        title="pytest-dlperf check of baselines",
        description="What dlperf baselines check --json prints: each stored session judged "
        "against the others of its level. Shares are of 1.",
    )


def render() -> str:
    """Return the text of the schema's file."""
    return json.dumps(checked_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
