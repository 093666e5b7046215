"""The blocks of a document, and how its shell blocks are run one after the other.

A comment in the line before a shell block says what is not usual about it::

    <!-- fails: WHY -->                    its last command must end with 1
    <!-- not run: WHY; it is ... -->       checked in another way, never left out
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
#: That of the tutorial.
CASE: Final = "mymodel-torch-fp32-bs512-1n1c"
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<how>fails|not run): (?P<why>.+?) -->\n)?"
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: Who commits, for git.
AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "t"), ("EMAIL", "t@t"))
}
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

    @property
    def _row(self) -> list[str]:
        rows = [line for line in self.output.splitlines() if re.match(r"mymodel-\S+  ", line)]
        return re.split(r" {2,}", rows[-1].strip()) if rows else [""]

    @property
    def verdict(self) -> str:
        """What the last summary says of the case, such as ``passed (created)``; else empty."""
        return self._row[-1]

    def check(self) -> None:
        """Assert that it ended with 1 where its summary says ``regressed``, and else with 0.

        By speed alone: a shared machine becomes slower by itself, but its memory does not grow.
        """
        where = f"{self.block.document}:{self.block.line}\n{self.output}"
        assert self.exit_code == (self.verdict == "regressed"), where
        if self.verdict == "regressed":
            assert float(self._row[-2].removesuffix(" %")) < -1, where
            assert "peak memory grew" not in self.output, where


def check_tutorial(ran: Sequence[Ran], folder: Path) -> None:
    """Assert what a session of each step printed and wrote, whatever it was judged.

    The training is made slower, a page is written, a baseline is stored, and it is measured again.
    """
    for one in ran:
        one.check()
    slowed, stored, again = (one for one in ran if one.verdict)
    assert "1 written to the baselines" in stored.output
    assert stored.verdict.endswith(" (created)")
    assert [one.block.how for one in (slowed, stored, again)] == ["fails", "", ""]
    [baseline] = folder.glob("baselines/*/mymodel/*.json")
    assert baseline.name == f"{CASE}.json"
    [session] = json.loads(baseline.read_text("utf-8"))["sessions"]
    for one in (slowed, stored, again):
        launches = re.findall(
            rf"^{CASE} run \d+/\d+(?: \(.+\))?: [\d.]+ samples/s", one.output, re.MULTILINE
        )
        assert len(launches) >= len(session["runs"]) > 0, one.output
    page = (folder / "results.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert CASE in page


def run_in_order(
    document: str,
    folder: Path,
    environment: Mapping[str, str],
    *,
    leave_out: str = "",
    after_writing: Callable[[Path], None] | None = None,
) -> Iterator[Ran]:
    """Write the files of a document, and run its shell blocks, in order, in ``folder``.

    A shell block in which the pattern ``leave_out`` is found is not run; ``after_writing`` gets
    each file that was written.
    """
    for block in blocks(document):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
            if after_writing is not None:
                after_writing(path)
        elif block.language != "bash" or block.how == "not run":
            continue
        elif not leave_out or re.search(leave_out, block.text) is None:
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
