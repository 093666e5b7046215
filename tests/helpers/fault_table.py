"""The table of faults in benchmarks/faults.md: rows of this run replace those of a fault."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_BEGIN: Final = "| fault | what is seen | verdict | s | processes | locks | records |"
_RULE: Final = "|---|---|---|---|---|---|---|"


@dataclass(frozen=True, kw_only=True)
class Row:
    fault: str
    seen: str
    verdict: str
    #: From the fault, or from the timeout where that ended the run, to the verdict.
    seconds: float
    processes: int
    locks: int
    records: str

    def text(self) -> str:
        seen = self.seen.replace("|", "\\|").replace("\n", " ")
        return (
            f"| {self.fault} | {seen} | {self.verdict} | {self.seconds:.1f} | {self.processes} | "
            f"{self.locks} | {self.records} |"
        )


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
