"""Runs the suites on a folder of real data, for the tests of every framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.suites import train_suites


def train(
    tmp_path: Path, data: Path, which: str, *arguments: str, precision: str = "fp32"
) -> list[dict[str, Any]]:
    """Return the outcomes of the cases that match ``which``, of one short run each.

    ``precision``: of the cases, in words of ``-k``.
    """
    _, outcomes = train_suites(
        tmp_path, f"({precision}) and {which}", "--dlperf-iterations=12", "--dlperf-warmup=4",
        f"--dlperf-data={data}", *(arguments or ["--cpus=1,2"]),
    )  # fmt: skip
    return outcomes


def check_read(outcome: dict[str, Any]) -> None:
    """Assert that a case trained on real data, each rank on its own, and that waits are there."""
    # A busy machine makes the verdict another, and the measurement no less real.
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    conditions = outcome["measurement"]["conditions"]
    assert conditions["data"] == "real"
    assert conditions["options"]["data_workers"] == 0
    for run in outcome["measurement"]["runs"]:
        assert 0 < run["data_wait_share"] < 1
        assert run["extras"]["reader_alone_per_s"] > 0
        ranks = sorted(Path(run["folder"]).glob("rank*.jsonl"))
        assert len(ranks) == conditions["world_size"]
        firsts = [_first_samples(path) for path in ranks]
        size = conditions["batch_size_per_device"]
        assert [len(set(first)) for first in firsts] == [size] * len(ranks)
        assert len(set().union(*firsts)) == size * len(ranks), "ranks read the same samples"


def _first_samples(path: Path) -> list[int]:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    spans = [r for r in records if r["record"] == "span"]
    assert all(0 < span["data_wait_seconds"] < span["seconds"] for span in spans)
    [data] = [r for r in records if r["record"] == "data"]
    first: list[int] = data["first_samples"]
    return first
