"""The table of faults in benchmarks/faults.md: rows of this run replace those of a fault."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_BEGIN: Final = "| planted | said | verdict | left |"
_RULE: Final = "|---|---|---|---|"
#: Characters of what is said: the case's own reason has all of it.
_SAID: Final = 130


@dataclass(frozen=True, kw_only=True)
class Row:
    fault: str
    seen: str
    verdict: str
    #: Whether ranks left records; a test fails where anything else is left.
    has_records: bool

    def text(self) -> str:
        said = textwrap.shorten(self.seen, _SAID, placeholder=" …").replace("|", "\\|")
        left = "records" if self.has_records else "nothing"
        return f"| {self.fault} | {said} | {self.verdict} | {left} |"


#: Of a session's rows.
ROWS: Final[pytest.StashKey[list[Row]]] = pytest.StashKey()


def merge(path: Path, rows: list[Row]) -> None:
    """Put ``rows`` into the table of ``path``, in place or at its end."""
    text = path.read_text(encoding="utf-8")
    before, _, table = text.partition(f"{_BEGIN}\n{_RULE}\n")
    lines = table.splitlines()
    kept = [line for line in lines if line.startswith("|")]
    after = [line for line in lines if not line.startswith("|")]
    by_fault = {line.split(" | ")[0].removeprefix("| "): line for line in kept}
    by_fault |= {row.fault: row.text() for row in rows}
    path.write_text(
        "\n".join([f"{before}{_BEGIN}", _RULE, *by_fault.values(), *after]) + "\n",
        encoding="utf-8",
    )
