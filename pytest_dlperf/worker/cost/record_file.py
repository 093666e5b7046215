"""Files of a trace in the folder of its run: the record, and how far it is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from pytest_dlperf.core.wire_cost import COST_PROGRESS, COST_RECORD, CostRecord

#: Seconds between two lines of progress.
_PERIOD_S = 0.5


def write_record(folder: Path, record: CostRecord) -> None:
    """Write ``record`` at once: who reads it sees the whole of it, or nothing."""
    unfinished = folder / f"{COST_RECORD}.{os.getpid()}"
    unfinished.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    unfinished.replace(folder / COST_RECORD)


class Progress:
    """The line that says what is traced now."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / COST_PROGRESS
        self._stage = ""
        self._next_s = 0.0

    def begin(self, stage: str) -> None:
        """Say that ``stage`` begins."""
        self._stage, self._next_s = stage, 0.0
        self.note()

    def note(self, detail: str = "") -> None:
        """Say how far the stage is; often called, seldom written."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _PERIOD_S
            text = f"{self._stage}, {detail}" if detail else self._stage
            self._file.write_text(f"{text}\n", encoding="utf-8")
