"""The table of what the golden file holds: verdicts by road."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tests.golden.golden_file import Record
from tests.golden.roads import road_of


def counted(records: Iterable[Record]) -> Mapping[str, Counter[str]]:
    """Return the number of judgements by road and verdict."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        counts[road_of(record.given)].update(_verdicts(record.output))
    return counts


def _verdicts(output: Mapping[str, Any]) -> list[str]:
    """Return the verdict, and the state of a known slowdown; of sessions the kinds of alarms."""
    if "error" in output:
        return [f"raises {output['error']}"]
    if "each" in output:
        kinds = {
            alarm for session in (*output["each"], *output["aside"]) for alarm in session["alarms"]
        }
        return [f"alarm: {kind}" for kind in sorted(kinds)] or ["no alarm"]
    slowdown = output["known"]
    return [output["verdict"], *([f"known: {slowdown}"] if slowdown else [])]


def table(records: Iterable[Record]) -> str:
    """Return the table as lines: a road, and its verdicts."""
    counts = counted(records)
    lines = []
    for road in sorted(counts):
        verdicts = ", ".join(f"{name} {n}" for name, n in sorted(counts[road].items()))
        lines.append(f"{road}: {verdicts}")
    return "\n".join(lines)
