"""Find words that hide the noun, and dates: ``python tests/static/words.py``.

Each word came to mean everything, so that a reader had to guess what is meant. It reads the first
lines of docstrings, every other text of the code that has a blank (messages, help, pages), and the
documents without their code; dates and hours are looked for in the documents alone. Ends with 1
and a line for each place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
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
_MONTHS: Final = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_UNDATED: Final = "what was measured, or a version"
#: A day or an hour: a reader of a document cannot use it, and it grows old.
DATED: Final = {
    rf"\b{_MONTHS} (?:\d{{1,2}}\b|20\d\d\b)": _UNDATED,
    r"\b20\d\d-[01]\d-[0-3]\d\b": _UNDATED,
    r"\b[0-2]?\d:[0-5]\d(?= (?:in|on|at|of) the\b)": _UNDATED,
    r"\b(?:noon|afternoon|yesterday|this (?:morning|evening)|o'clock)\b": _UNDATED,
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
    names = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "benchmarks/README.md")
    folders = (ROOT / "docs", ROOT / "guides")
    pages = sorted(page for folder in folders for page in folder.rglob("*.md"))
    for path in [*(ROOT / name for name in names), *pages]:
        # Blank, so that the lines keep their numbers.
        text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), path.read_text("utf-8"))
        for line, part in enumerate(text.splitlines(), start=1):
            found += _report(path, line, part, HIDES | DATED)
    return int(found > 0)


def _report(path: Path, line: int, text: str, patterns: Mapping[str, str] = HIDES) -> int:
    """Print each place of a text that has one of the patterns, and return how many there are."""
    found = 0
    for pattern, instead in patterns.items():
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
