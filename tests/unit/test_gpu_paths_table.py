"""The table of defects in benchmarks/gpu_paths.md names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def functions() -> dict[str, list[str]]:
    """Return the files of every test function, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.newest
def test_each_test_that_the_table_names_is_there() -> None:
    text = (ROOT / "benchmarks/gpu_paths.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| [AB]\d+", line)]
    assert len(rows) >= 28
    known, named = functions(), 0
    for row in rows:
        for word in re.findall(r"`([^`\s]*test_\w+(?:\.py)?(?:::\w+)?)`", row):
            path, _, name = word.rpartition("::")
            named += 1
            if word.endswith(".py"):
                assert (ROOT / word).is_file(), row
                continue
            files = [file for file in known.get(name, []) if file.endswith(path)]
            assert len(files) == 1, f"{word} in {row}: found in {files}"
    assert named > 50
