"""Tells a run during which others used the machine, by CPU seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.measure.records import RankRecords

#: Others' share of the host's CPU seconds above which a run does not count. Of 50 recorded
#: runs of 8 s on 2 cores, each of the five that others had hit lost more than 1 CPU s (6 %).
_SHARE: Final = 0.06
#: The kernel counts in ticks of 10 ms; less than this is not told from rounding.
_LEAST_S: Final = 0.15


def disturbance(records: Sequence[RankRecords]) -> tuple[float | None, str]:
    """Return others' largest share of a node's CPU seconds, and a sentence if it is too much.

    None and no sentence where the system does not tell.
    """
    nodes: dict[str, list[RankRecords]] = {}
    for rank in records:
        nodes.setdefault(rank.by_kind["start"]["node"], []).append(rank)
    worst: float | None = None
    reason = ""
    for node, ranks in nodes.items():
        windows = [rank.by_kind["window"] for rank in ranks]
        if any(window["host_busy_seconds"] is None for window in windows):
            continue
        longest = max(windows, key=lambda window: window["seconds"])
        own_s = sum(window["own_cpu_seconds"] for window in windows)
        # A launcher passes on what its ranks print; that is the run's own doing.
        own_s += max(window["launcher_cpu_seconds"] for window in windows)
        stolen_s = longest["host_steal_seconds"]
        others_s = max(0.0, longest["host_busy_seconds"] - own_s) + stolen_s
        share = others_s / (longest["seconds"] * ranks[0].by_kind["start"]["cores"])
        if worst is None or share > worst:
            worst = share
            if share > _SHARE and others_s > _LEAST_S:
                reason = (
                    f"others used {others_s:.1f} CPU s of {node} ({share:.0%} of it) while the "
                    f"{longest['seconds']:.1f} s were measured"
                )
    return worst, reason
