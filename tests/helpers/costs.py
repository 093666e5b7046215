"""Records of costs: that of a small transformer, and changes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pytest_dlperf.core.wire_cost import COST_FORMAT, CostRecord

LAYERS = 32
PRODUCT_FLOPS = 2_000_000_000


def operator(path: str, name: str = "mm", **values: Any) -> dict[str, Any]:
    return {
        "path": path,
        "phase": "forward",
        "name": name,
        "shapes": "4096x4096 bfloat16, 4096x128 bfloat16",
        "calls": LAYERS,
        "flops": LAYERS * PRODUCT_FLOPS,
        "flops_dtype": "bfloat16",
        "read_bytes": LAYERS * 4_000_000,
        "written_bytes": LAYERS * 1_000_000,
        **values,
    }


def cost_record(
    change: Callable[[dict[str, Any]], object] | None = None, **top: Any
) -> CostRecord:
    """Return the record of a model of 32 blocks, whose figures add up after ``change``.

    ``change`` gets the record's one stage.
    """
    products = [
        operator("blocks.*.attention", calls=4 * LAYERS, flops=4 * LAYERS * PRODUCT_FLOPS),
        operator("blocks.*.mlp", calls=3 * LAYERS, flops=3 * LAYERS * PRODUCT_FLOPS),
        operator(
            "blocks.*.mlp",
            phase="backward",
            calls=6 * LAYERS,
            flops=6 * LAYERS * PRODUCT_FLOPS,
        ),
        operator("head", calls=1, flops=PRODUCT_FLOPS),
    ]
    others: dict[str, Any] = {"flops": 0, "flops_dtype": "", "shapes": "4096x128 bfloat16"}
    stage: dict[str, Any] = {
        "rank": 0,
        "operators": [
            *products,
            operator("blocks.*.mlp", "silu", **others),
            operator("", "_fused_adamw_", **{**others, "phase": "optimizer", "calls": 2}),
        ],
        "collectives": [
            {
                "kind": "all-gather",
                "group": "8 ranks, 1 apart",
                "ranks": 8,
                "spread": "8 ranks, 1 apart",
                "span": 8,
                "dtype": "bfloat16",
                "bytes": 8_000_000,
                "calls": 2 * LAYERS,
                "path": "blocks.*",
                "phase": "forward",
                "overlapped": LAYERS,
            }
        ],
        "memory": {
            "at_peak": [
                {"path": "blocks.*.mlp", "kind": "activations", "bytes": 6_000_000_000},
                {"path": "blocks.*.mlp", "kind": "parameters", "bytes": 2_000_000_000},
                {"path": "head", "kind": "gradients", "bytes": 500_000_000},
            ]
        },
        "host_waits": [{"place": "train.py:20", "what": ".item()", "count": 1}],
        "parameters": {"bfloat16": 1_000_000_000, "float32": 4096},
        "graph_breaks": [],
        "recompilations": 0,
        "layers": {"blocks.*": LAYERS},
    }
    if change is not None:
        change(stage)
    record: dict[str, Any] = {
        "format": COST_FORMAT,
        "framework": "torch",
        "framework_version": "2.13.0+cpu",
        "world_size": 8,
        "parameters": 8_000_000_000,
        "stages": [with_sums(stage)],
        "notes": [],
        "elapsed_s": 9.0,
        "trace_peak_bytes": 10**9,
        **top,
    }
    return copy.deepcopy(record)  # type: ignore[return-value]


def with_sums(stage: dict[str, Any]) -> dict[str, Any]:
    """Return a stage whose sums are those of its parts."""
    flops: dict[str, int] = {}
    for one in stage["operators"]:
        if one["flops"]:
            flops[one["flops_dtype"]] = flops.get(one["flops_dtype"], 0) + one["flops"]
    kinds: dict[str, int] = {}
    for live in stage["memory"]["at_peak"]:
        kinds[live["kind"]] = kinds.get(live["kind"], 0) + live["bytes"]
    launches = sum(one["calls"] for one in stage["operators"])
    memory = {"peak_bytes": sum(kinds.values()), "by_kind": kinds, **stage["memory"]}
    return {**stage, "flops": flops, "launches": launches, "memory": memory}


def operator_in(stage: dict[str, Any], path: str, name: str = "mm", phase: str = "forward") -> Any:
    """Return the operator of a stage with these words."""
    return next(
        one
        for one in stage["operators"]
        if (one["path"], one["name"], one["phase"]) == (path, name, phase)
    )
