"""Whether the losses of a run fell in every rank, from the ranks' own records."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any


def assert_losses_fell(run: dict[str, Any]) -> None:
    """Assert it of a run of a results file, by the median of the second half.

    The last iterations alone may hold a spike, where a rank has two samples.
    """
    ranks = sorted(Path(run["folder"]).glob("rank*.jsonl"))
    assert len(ranks) == len(run["ranks"])
    for path in ranks:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        [losses] = [one["values"] for one in records if one["record"] == "loss"]
        assert statistics.median(losses[len(losses) // 2 :]) < losses[0], path
