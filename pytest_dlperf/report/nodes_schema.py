"""The JSON schema of ``dlperf nodes --json``; ``python -m`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.findings import NodeEffects
from pytest_dlperf.report.results_schema import schema_of

FILE: Final = Path(__file__).with_name("nodes.schema.json")
#: Version of the shape. 1: the first.
FORMAT: Final = 1


def nodes_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    return schema_of(
        NodeEffects,
        FORMAT,
        title="pytest-dlperf comparison of nodes",
        description="What dlperf nodes --json prints: log throughput = case + "
        "node, by least squares. Shares are of 1; what cannot be compared is null.",
    )


def render() -> str:
    """Return the text of the schema's file."""
    return json.dumps(nodes_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
