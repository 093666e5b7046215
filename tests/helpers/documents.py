"""The blocks of a document, and how its shell blocks are run one after the other.

A comment in the line before a shell block says what is not usual about it::

    <!-- fails: WHY -->                    its last command must end with 1
    <!-- not run: WHY; it is ... -->       checked in another way, never left out
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<how>fails|not run): (?P<why>.+?) -->\n)?"
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NAME: Final = re.compile(r"# ([\w/]+\.\w+)\b")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a document."""

    document: str
    line: int
    language: str
    text: str
    #: ``fails``, ``not run`` or empty.
    how: str
    why: str

    @property
    def file(self) -> str:
        """The file that this block is, by the comment in its first line; else empty."""
        named = _NAME.match(self.text)
        return named[1] if named and self.language == "python" else ""

    @property
    def commands(self) -> list[str]:
        """The block's commands, without comments."""
        lines = (line.partition(" #")[0].strip() for line in self.text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]


def blocks(document: str) -> list[Block]:
    """Return the fenced blocks of a document of this repository, in order."""
    text = (ROOT / document).read_text("utf-8")
    return [
        Block(
            document=document,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            how=found["how"] or "",
            why=found["why"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What became of a block."""

    block: Block
    exit_code: int
    output: str


def run_in_order(document: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Ran]:
    """Write the files of a document, and run its shell blocks, in order, in ``folder``."""
    for block in blocks(document):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.language == "bash" and block.how != "not run":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text],
                cwd=folder,
                env=dict(environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
                check=False,
            )
            yield Ran(block=block, exit_code=done.returncode, output=done.stdout)
