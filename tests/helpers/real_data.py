"""Runs the suites on a folder of real data, for the tests of every framework."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def train(
    tmp_path: Path, data: Path, which: str, *arguments: str, precision: str = "fp32"
) -> list[dict[str, Any]]:
    """Return the outcomes of the cases that match ``which``, of one short run each.

    ``precision``: of the cases, in words of ``-k``.
    """
    results = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider",
        "-k", f"({precision}) and {which}", "-p", "tests.helpers.no_repeats",
        "--dlperf-runs=1", "--dlperf-max-runs=1", "--dlperf-iterations=12",
        "--dlperf-warmup=4", f"--dlperf-data={data}", f"--dlperf-json={results}",
        f"--dlperf-workdir={tmp_path / 'work'}", f"--dlperf-baselines={tmp_path / 'baselines'}",
        *(arguments or ["--cpus=1,2"]),
    ]  # fmt: skip
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=1500
    )
    assert results.exists(), done.stdout + done.stderr
    outcomes: list[dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
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
