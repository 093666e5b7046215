"""What torch.compile did in a run: its figures, and whether it compiled within the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.core.run import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.measure.records import RankRecords


def compile_extras(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return figures of the rank that compiled longest; empty if none compiled."""
    found = [rank.by_kind["compile"] for rank in records if "compile" in rank.by_kind]
    if not any(record["frames"] for record in found):
        return {}
    return {
        "compile_seconds": max(record["seconds"] for record in found),
        "compiled_frames": float(max(record["frames"] for record in found)),
        "compile_seconds_in_window": max(record["seconds_in_window"] for record in found),
        "recompiles_in_window": float(max(record["frames_in_window"] for record in found)),
    }


def recompiled(records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem ``recompiled`` if a rank compiled within the measured window."""
    found = {
        rank.rank: rank.by_kind["compile"]
        for rank in records
        if rank.by_kind.get("compile", {}).get("frames_in_window")
    }
    if not found:
        return []
    rank, record = max(found.items(), key=lambda item: float(item[1]["seconds_in_window"]))
    count = record["frames_in_window"]
    message = (
        f"torch.compile compiled {count} {'frame' if count == 1 else 'frames'} within the "
        f"measured window, which took rank {rank} {record['seconds_in_window']:.2g} s of it; warm "
        "up longer, or keep shapes and Python values the same from step to step "
        "(TORCH_LOGS=recompiles names what changed)"
    )
    return [Problem(code="recompiled", message=message)]
