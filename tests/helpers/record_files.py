"""Records as ranks write them, for tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import EndReason, LaunchPlan, Run, RunEnd


def case(layout: str = "1n2c", **keys: Any) -> Case:
    return expand(
        suite="tsm",
        **({} if "command" in keys else {"workload": "m:build"}),
        batch_size_per_device=4,
        layout=layout,
        iterations=20,
        warmup=10,
        **keys,
    )[0]


def rank_records(rank: int, *, seconds: float = 0.1, world_size: int = 2) -> list[dict[str, Any]]:
    """Twenty iterations, each of ``seconds``; the loss falls from 2 to 0.1."""
    records: list[dict[str, Any]] = [
        {
            "record": "start",
            "format": 1,
            "world_size": world_size,
            "node": "n1",
            "cores": 2,
            "python": "3.11",
            "pid": 1,
            "time": 1000.0,
            "local_rank": rank,
        },
        {"record": "framework", "framework": "torch", "framework_version": "2", "device_id": None},
        {"record": "first_step", "time": 1002.5},
        {
            "record": "canary",
            "when": "before",
            "matmul_gflop_per_s": 100.0 + rank,
            "all_reduce_gb_per_s": None,
        },
        {
            "record": "window",
            "seconds": 10 * seconds,
            "own_cpu_seconds": 9 * seconds,
            "launcher_cpu_seconds": 0.1 * seconds,
            "host_busy_seconds": 9 * seconds * world_size,
            "host_steal_seconds": 0.0,
            "inject": 0.0,
        },
        {"record": "loss", "values": [2.0 - 0.1 * i for i in range(20)]},
        {
            "record": "model",
            "input_shapes": [[4, 3]],
            "flops_by_dtype": {"float32": 100},
            "parameter_count": 10,
        },
        {"record": "memory", "bytes": 1000 + rank, "kind": "resident-set"},
        {"record": "checksum", "value": {"digest": "same", "tensors": 2}},
        {
            "record": "canary",
            "when": "after",
            "matmul_gflop_per_s": 110.0 + rank,
            "all_reduce_gb_per_s": None,
        },
        {"record": "end", "time": 1010.0},
    ]
    spans = [
        {
            "record": "span",
            "first_step": i,
            "last_step": i,
            "seconds": seconds,
            "work": 4,
            "cpu_seconds": 0.9 * seconds,
            "data_wait_seconds": None,
        }
        for i in range(20)
    ]
    return [{"rank": rank, **record} for record in [*records, *spans]]


def marked_records(rank: int = 0, **values: Any) -> list[dict[str, Any]]:
    """What the marks of a program write; it has no loss unless ``losses`` says some."""
    losses, imported = values.pop("losses", []), values.pop("imported", ["numpy"])
    records = without(rank_records(rank, **values), "model", "checksum", "canary")
    records.append({"rank": rank, "record": "libraries", "imported": imported})
    return changed(records, "loss", values=losses)


def write(folder: Path, ranks: list[list[dict[str, Any]]], **run: Any) -> Run:
    """Write the records of every rank, and return the run that they belong to."""
    folder.mkdir(parents=True, exist_ok=True)
    for records in ranks:
        name = f"rank{records[0]['rank']:05d}.jsonl"
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / name).write_text(text, encoding="utf-8")
    log = folder / "output.log"
    log.write_text("line 1\nlast words\n", encoding="utf-8")
    plan = LaunchPlan(case_id="c", argv=("x",), env={}, workdir=str(folder), timeout_s=20)
    values = {
        "plan": plan,
        "exit_code": 0,
        "elapsed_s": 9.0,
        "started_at_s": 1000.0,
        "end": RunEnd(reason=EndReason.EXITED),
        "log": str(log),
        **run,
    }
    return Run(**values)


def changed(records: list[dict[str, Any]], kind: str, **values: Any) -> list[dict[str, Any]]:
    """Return ``records`` with the records of one kind changed."""
    return [{**r, **values} if r["record"] == kind else r for r in records]


def without(records: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return ``records`` less those of some kinds."""
    return [r for r in records if r["record"] not in kinds]
