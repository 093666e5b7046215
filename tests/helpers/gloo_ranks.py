"""A script of one rank, run alone and on two ranks, for what both must agree on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: What one rank alone has to say, and what each of two has.
Reports = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def reports_of(script: Path, folder: Path) -> Reports:
    """Run ``script`` by itself, then twice at once; return its report, and those of both ranks.

    Its argument is the folder of the reports, ``WORLD_SIZE-RANK.json``. No launcher starts it, as
    that would import PyTorch once more: ranks meet in the file ``rendezvous``.
    """
    for world_size in (1, 2):
        ranks = [
            subprocess.Popen(
                [sys.executable, str(script), str(folder)],
                env=os.environ
                | {
                    "PYTHONPATH": str(script.parents[2]), "OMP_NUM_THREADS": "1",
                    "WORLD_SIZE": str(world_size), "RANK": str(rank),
                },
            )
            for rank in range(world_size)
        ]  # fmt: skip
        try:
            assert [rank.wait(timeout=120) for rank in ranks] == [0] * world_size
        finally:
            for rank in ranks:
                rank.kill()
    alone, first, second = (
        json.loads((folder / name).read_text(encoding="utf-8"))
        for name in ("1-0.json", "2-0.json", "2-1.json")
    )
    return alone, first, second
