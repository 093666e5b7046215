"""What torch.compile or XLA did in a run: figures, and problems of the measured window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.records import RankRecords

#: Figures of torch.compile, or of XLA, among the extras -> the key of the record.
_GRAPH_FIGURES: Final[
    Mapping[str, Literal["graphs", "graph_breaks", "recompiles", "operators"]]
] = {
    "compiled_graphs": "graphs",
    "compiled_operators": "operators",
    "graph_breaks": "graph_breaks",
    "recompiles": "recompiles",
}


def compile_extras(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return figures of the rank that compiled longest; empty if none compiled."""
    found = [rank.by_kind["compile"] for rank in records if "compile" in rank.by_kind]
    if not any(record["frames"] for record in found):
        return {}
    made = {
        name: float(max(record.get(key, 0) for record in found))
        for name, key in _GRAPH_FIGURES.items()
        if any(key in record for record in found)
    }
    return {
        **made,
        "compile_seconds": max(record["seconds"] for record in found),
        "compiled_frames": float(max(record["frames"] for record in found)),
        "compile_seconds_in_window": max(record["seconds_in_window"] for record in found),
        "recompiles_in_window": float(max(record["frames_in_window"] for record in found)),
    }


#: By the record's ``compiler``: its name, what it compiles, and what tells why.
_COMPILERS: Final = {
    "": ("torch.compile", "frame", "TORCH_LOGS=recompiles names what changed"),
    "XLA": ("XLA", "program", "JAX_EXPLAIN_CACHE_MISSES=1 names what changed"),
}


def recompiled(records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem ``recompiled`` if a rank compiled within the measured window."""
    compiled = [
        (rank.rank, rank.by_kind["compile"]) for rank in records if "compile" in rank.by_kind
    ]
    found = [(rank, record) for rank, record in compiled if record["frames_in_window"]]
    if not found:
        return []
    rank, record = max(found, key=lambda item: item[1]["seconds_in_window"])
    count = record["frames_in_window"]
    compiler, what, hint = _COMPILERS[record.get("compiler", "")]
    message = (
        f"{compiler} compiled {count} {what if count == 1 else f'{what}s'} within the "
        f"measured window, which took rank {rank} {record['seconds_in_window']:.2g} s of it; warm "
        f"up longer, or keep shapes and Python values the same from step to step ({hint})"
    )
    return [Problem(code="recompiled", message=message)]


def cuda_graphs_skipped(records: Sequence[RankRecords]) -> list[Problem]:
    """Return a problem if a rank's compiler left out CUDA graphs that it was to make."""
    skips = [
        (rank.rank, rank.by_kind["compile"].get("cudagraph_skips", 0))
        for rank in records
        if "compile" in rank.by_kind
    ]
    rank, count = max(skips, key=lambda item: item[1], default=(0, 0))
    if not count:
        return []
    message = (
        f"torch.compile left out the CUDA graphs of {count} compiled "
        f"{'function' if count == 1 else 'functions'} in rank {rank}: what is measured there is "
        "launched kernel by kernel (TORCH_LOGS=perf_hints says why)"
    )
    return [Problem(code="cuda-graphs-skipped", message=message)]
