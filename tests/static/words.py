"""Find words that hide the noun: ``python tests/static/words.py``.

Each word came to mean everything, so that a reader had to guess what is meant. It reads the first
lines of docstrings, every other text of the code that has a blank (messages, help, pages), and the
documents without their code. Ends with 1 and a line for each place.
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
    r"\bstands?\b(?!-| (?:for|still|in for)\b)": "is, has, appears",
    r"\blies?\b": "is, is kept in",
    r"\btells\b": "says, shows",
    r"(?<!there )\b(?:is|are) no (?!longer|more|such|reason|doubt)": "is not a",
}
#: What a program reads or prints: fenced and indented blocks, code in a line, comments, addresses.
CODE: Final = re.compile(
    r"^```.*?^```$"
    r"|(?:(?<=\n\n)|(?<=:\n))(?: {4,}[^\n]*(?:\n|\Z))+"
    r"|`[^`\n]+`|<!--.*?-->|\]\([^)\n]*\)",
    re.MULTILINE | re.DOTALL,
)


def main() -> int:
    """Print what is found, and return the exit code."""
    found = 0
    for path in sorted((ROOT / "pytest_dlperf").rglob("*.py")):
        for line, text in _texts(ast.parse(path.read_text("utf-8"))):
            found += _report(path, line, text)
    names = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
    folders = (ROOT / "docs", ROOT / "guides")
    pages = sorted(page for folder in folders for page in folder.rglob("*.md"))
    for path in [*(ROOT / name for name in names), *pages]:
        # Blank, so that the lines keep their numbers.
        text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), path.read_text("utf-8"))
        for line, part in enumerate(text.splitlines(), start=1):
            found += _report(path, line, part)
    return int(found > 0)


def _report(path: Path, line: int, text: str) -> int:
    """Print each word of a text that hides the noun, and return how many there are."""
    found = 0
    for pattern, instead in HIDES.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            found += 1
            place = f"{path.relative_to(ROOT)}:{line}"
            around = text[max(0, match.start() - 30) : match.end() + 30].strip()
            print(f"{place}: {match.group().strip()!r} in {around!r}; write: {instead}")
    return found


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the first lines of docstrings, and all other texts that have a blank, with lines.

    A part of an f-string is a text of its own.
    """
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            yield getattr(node, "lineno", 1), first
            if first and isinstance(node.body[0], ast.Expr):
                docstrings.add(node.body[0].value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


if __name__ == "__main__":
    sys.exit(main())
