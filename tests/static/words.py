"""Find words that hide the noun, in first lines and messages: ``python tests/static/words.py``.

Each word came to mean everything, so that a reader had to guess what is meant. Ends with 1 and a
line for each place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: What to write instead, by the pattern.
HIDES: Final = {
    r"\btold\b": "said, reported, given",
    r"\banew\b": "again",
    r"\bwhatever\b": "any, or name it",
    r"\bstands? (?!for|still|in for)": "is, has, appears",
    r"\blies?\b": "is, is kept in",
    r"(?<!there )\bis no (?!longer|more|such|reason|doubt)": "is not a",
}


def main() -> int:
    """Print what is found, and return the exit code."""
    found = 0
    for path in sorted((ROOT / "pytest_dlperf").rglob("*.py")):
        for line, text in _texts(ast.parse(path.read_text("utf-8"))):
            for pattern, instead in HIDES.items():
                for match in re.finditer(pattern, text, re.IGNORECASE):
                    found += 1
                    place = f"{path.relative_to(ROOT)}:{line}"
                    print(f"{place}: {match.group().strip()!r} in {text[:60]!r}; write: {instead}")
    return int(found > 0)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the first lines of docstrings, and the texts of errors, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            yield getattr(node, "lineno", 1), first
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


if __name__ == "__main__":
    sys.exit(main())
