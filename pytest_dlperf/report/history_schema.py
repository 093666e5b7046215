"""The JSON schema of ``dlperf history … --json``; ``python -m`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.history import HistoryFound
from pytest_dlperf.report.results_schema import schema_of

FILE: Final = Path(__file__).with_name("history.schema.json")
#: Version of the shape. 1: the first.
FORMAT: Final = 1


def history_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    return schema_of(
        HistoryFound,
        FORMAT,
        title="pytest-dlperf history",
        description="What list, series, changes and bisect of dlperf history print with --json. "
        "Rates are in the unit a second, shares of 1; what was not measured is null.",
    )


def render() -> str:
    """Return the text of the schema's file."""
    return json.dumps(history_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
