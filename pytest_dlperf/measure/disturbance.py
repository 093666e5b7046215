"""Tells a run during which others used the machine, by CPU seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.measure.records import RankRecords

#: Others' share of the host's CPU seconds above which a run does not count. Of 50 recorded
#: runs of 8 s on 2 cores, each of the five that others had hit lost more than 1 CPU s (6 %).
_SHARE: Final = 0.06
#: What the hypervisor gave to other guests is lost to all ranks at once, and comes in stretches.
_STEAL: Final = 0.03
#: The kernel counts in ticks of 10 ms; less than this is not told from rounding.
_LEAST_S: Final = 0.15


def disturbance(records: Sequence[RankRecords]) -> tuple[dict[str, float], str]:
    """Return the shares of the worst node's CPU seconds, and a sentence if one is too much.

    ``others``: of everybody but the run, stolen time among them; ``steal``: what the hypervisor
    took away (proc(5), ``/proc/stat``). Empty, and no sentence, where the system does not tell.
    The worst node is a disturbed one where there is any, and farthest beyond a bound; in which
    order nodes and ranks are given is no matter.
    """
    machines: dict[str, list[RankRecords]] = {}
    for rank in records:
        start = rank.by_kind["start"]
        # Nodes that are containers of one machine use its CPUs together.
        machines.setdefault(start.get("boot") or start["node"], []).append(rank)
    found = []
    for ranks in machines.values():
        node = " and ".join(sorted({rank.by_kind["start"]["node"] for rank in ranks}))
        windows = [rank.by_kind["window"] for rank in ranks]
        if any(window["host_busy_seconds"] is None for window in windows):
            continue
        cores = ranks[0].by_kind["start"]["cores"]
        launchers_s: dict[str, float] = {}
        for rank in ranks:
            name = rank.by_kind["start"]["node"]
            used_s = rank.by_kind["window"]["launcher_cpu_seconds"]
            launchers_s[name] = max(launchers_s.get(name, 0.0), used_s)
        shares, sentence = _of_node(node, windows, cores, sum(launchers_s.values()))
        beyond = max(shares["others"] / _SHARE, shares["steal"] / _STEAL)
        found.append((bool(sentence), beyond, node, shares, sentence))
    if not found:
        return {}, ""
    _, _, _, shares, sentence = max(found, key=lambda one: one[:3])
    return shares, sentence


def others_alone(records: Sequence[RankRecords]) -> bool:
    """Whether no more CPU time was stolen on any node than an undisturbed run loses.

    False where the system does not tell.
    """
    windows = [(rank.by_kind["window"], rank.by_kind["start"]["cores"]) for rank in records]
    return all(
        window["host_steal_seconds"] is not None
        and window["host_steal_seconds"] <= max(_STEAL * window["seconds"] * cores, _LEAST_S)
        for window, cores in windows
    )


def _of_node(
    node: str, windows: Sequence[Mapping[str, Any]], cores: int, launchers_s: float
) -> tuple[dict[str, float], str]:
    # Of ranks that took equally long, the one that saw most
    longest = max(
        windows,
        key=lambda window: (
            float(window["seconds"]),
            window["host_busy_seconds"] + window["host_steal_seconds"],
            window["host_steal_seconds"],
        ),
    )
    own_s = math.fsum(window["own_cpu_seconds"] for window in windows)
    # A launcher passes on what its ranks print; that is the run's own doing.
    own_s += launchers_s
    stolen_s = longest["host_steal_seconds"]
    others_s = max(0.0, longest["host_busy_seconds"] - own_s) + stolen_s
    had_s = longest["seconds"] * cores
    shares = {"others": others_s / had_s, "steal": stolen_s / had_s}
    during = f"while the {longest['seconds']:.1f} s were measured"
    if shares["steal"] > _STEAL and stolen_s > _LEAST_S:
        return shares, (
            f"the hypervisor gave {stolen_s:.1f} CPU s of {node} ({shares['steal']:.0%} of it) to "
            f"other guests {during}"
        )
    if shares["others"] > _SHARE and others_s > _LEAST_S:
        return (
            shares,
            f"others used {others_s:.1f} CPU s of {node} ({shares['others']:.0%} of it) {during}",
        )
    return shares, ""
