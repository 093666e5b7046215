"""Traces workloads in this process: what ``python -m pytest_dlperf.worker.cost`` writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_dlperf.core.wire import RankArguments
from pytest_dlperf.core.wire_cost import COST_RECORD, CostRecord, StageCost
from pytest_dlperf.worker.arguments import Arguments

#: What each traced case has unless a test says otherwise.
_GIVEN: Mapping[str, Any] = {
    "framework": "torch", "precision": "fp32", "device": "gpu", "size": "tiny", "loss": "finite",
    "batch_size_per_device": 4, "world_size": 1, "iterations": 2, "warmup": 1,
    "threads_per_rank": 1, "collective_timeout_s": 60.0, "seed": 1,
    "place_from": ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
}  # fmt: skip


def flags_of(workload: str, folder: Path, **given: Any) -> tuple[str, ...]:
    """Return the words of a command that traces into ``folder``."""
    return RankArguments(**_values(workload, folder, given)).flags()


def arguments_of(workload: str, folder: Path, **given: Any) -> Arguments:
    """Return the arguments of a trace that writes into ``folder``."""
    values = _values(workload, folder, given)
    return Arguments(**values, rank=0, local_rank=0, launched_world_size=1)


def _values(workload: str, folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    return {**_GIVEN, "workload": workload, "records": str(folder), **given}


def traced(workload: str, folder: Path, **given: Any) -> CostRecord:
    """Return the record of a case: its cost, or its problem."""
    # A test without PyTorch may import this module
    from pytest_dlperf.worker.frameworks.torch.cost.trace import trace

    return trace(arguments_of(workload, folder, **given))


def traced_apart(workload: str, folder: Path, **given: Any) -> CostRecord:
    """Return the record that a process of its own writes, as that of a case.

    A process of JAX has the devices that it had first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, "-m", "pytest_dlperf.worker.cost", *flags_of(workload, folder, **given)],
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        timeout=300,
    )
    record: CostRecord = json.loads((folder / COST_RECORD).read_text(encoding="utf-8"))
    return record


def stage_of(record: CostRecord) -> StageCost:
    """Return the one stage of a traced case."""
    assert "problem" not in record, record["problem"]
    [stage] = record["stages"]
    return stage


def differences(before: StageCost, after: StageCost) -> dict[str, Any]:
    """Return which figures differ, with what each is after; of operators, their places.

    Memory is its peak, and the kinds that it grew by.
    """
    changed: dict[str, Any] = {
        name: after[name]  # type: ignore[literal-required]
        for name in ("flops", "launches", "host_waits", "parameters", "graph_breaks")
        if before[name] != after[name]  # type: ignore[literal-required]
    }
    if before["operators"] != after["operators"]:
        changed["operators"] = set(_changed_places(before, after))
    if before["collectives"] != after["collectives"]:
        changed["collectives"] = calls_by_kind(after)
    if before["memory"]["peak_bytes"] != after["memory"]["peak_bytes"]:
        kinds = after["memory"]["by_kind"]
        earlier = before["memory"]["by_kind"]
        changed["memory"] = {kind for kind in kinds if kinds[kind] != earlier[kind]}
    return changed


def _changed_places(before: StageCost, after: StageCost) -> Iterator[tuple[str, str]]:
    rows = [{tuple(row.values()) for row in stage["operators"]} for stage in (before, after)]
    fields = list(before["operators"][0])
    for row in rows[0] ^ rows[1]:
        operator = dict(zip(fields, row, strict=True))
        yield str(operator["path"]), str(operator["phase"])


def calls_by_kind(stage: StageCost) -> dict[str, int]:
    """Return how often each kind of collective is called."""
    calls: dict[str, int] = {}
    for collective in stage["collectives"]:
        calls[collective["kind"]] = calls.get(collective["kind"], 0) + collective["calls"]
    return calls


def bytes_by_kind(stage: StageCost) -> dict[str, int]:
    """Return the bytes of all tensors of each kind of collective."""
    sizes: dict[str, int] = {}
    for collective in stage["collectives"]:
        size = collective["bytes"] * collective["calls"]
        sizes[collective["kind"]] = sizes.get(collective["kind"], 0) + size
    return sizes
