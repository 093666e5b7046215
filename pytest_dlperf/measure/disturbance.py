"""Finds runs during which other processes used the machine, or its GPUs were throttled."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.run import GpuFigure, GpuRecord
from pytest_dlperf.measure.gpu_watch import FILE
from pytest_dlperf.measure.records import RankRecords

#: Bits of ``nvmlClocksEventReason*`` that slow a GPU down from outside of the training.
THROTTLED: Final = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
#: Many boards reach their power limit in every training: it is reported, and disturbs nothing.
POWER_CAP: Final = 0x04
#: Share of a GPU's time that others may have.
_OTHERS: Final = 0.05
#: Share of the samples that may be throttled.
_SAMPLES: Final = 0.10


#: Seconds of the window that the energy of a GPU is measured over, at least.
_LEAST_ENERGY_S: Final = 1.0


def gpu_disturbance(folder: str, device_ids: Sequence[str | None]) -> tuple[dict[str, float], str]:
    """Return figures of the GPUs that the run in ``folder`` used, and why it does not count.

    Empty if there are no samples. ``device_ids`` are the UUIDs that ranks reported, with or
    without ``GPU-``; where one is unknown, those count that the ranks' environment names, and all
    GPUs of the node where nobody knows that either.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return {}, ""
    text = path.read_text(encoding="utf-8")
    lines: list[GpuRecord] = [json.loads(line) for line in text.splitlines()]
    gpus: dict[tuple[int, str], list[GpuRecord]] = {}
    for line in _lines_of_ranks(lines, device_ids):
        gpus.setdefault((line["index"], line["uuid"]), []).append(line)
    reasons = [
        _lost(i, samples) or _others_words(i, samples) or _throttled(i, samples)
        for (i, _), samples in sorted(gpus.items())
    ]
    return _figures(list(gpus.values())), next(filter(None, reasons), "")


def _lines_of_ranks(lines: list[GpuRecord], device_ids: Sequence[str | None]) -> list[GpuRecord]:
    """Return the lines of the GPUs that ranks used, as far as that is known."""
    used = {_plain(uuid) for uuid in device_ids if uuid}
    reported = [line for line in lines if _plain(line["uuid"]) in used]
    if reported and None not in device_ids:
        return reported
    if all("chosen" in line for line in lines):
        return [line for line in lines if line["chosen"]]
    return lines


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _lost(index: int, lines: Sequence[GpuRecord]) -> str:
    """Return a sentence if the GPU stopped to answer its driver."""
    words = next((line["lost"] for line in lines if "lost" in line), None)
    if words is None:
        return ""
    return (
        f"GPU {index} does not answer its driver any more ({words}); dmesg has the cause (Xid), "
        "and a restart of the machine brings it back"
    )


def _values(lines: Iterable[GpuRecord], name: GpuFigure) -> list[float]:
    return [value for line in lines if (value := line[name]) is not None]


def _window(lines: Sequence[GpuRecord]) -> list[GpuRecord]:
    return [line for line in lines if line["when"] == "window"]


def _share(lines: Sequence[GpuRecord], bits: int) -> float | None:
    known = _values(_window(lines), "clock_reasons")
    return sum(bool(int(reasons) & bits) for reasons in known) / len(known) if known else None


def _clock_share(lines: Sequence[GpuRecord]) -> float | None:
    known = [
        line["sm_clock_mhz"] / line["max_sm_clock_mhz"]
        for line in _window(lines)
        if line["sm_clock_mhz"] is not None and line["max_sm_clock_mhz"]
    ]
    return statistics.median(known) if known else None


def _figures(gpus: Sequence[Sequence[GpuRecord]]) -> dict[str, float]:
    """Return the figures of the worst GPU: the lowest clocks, the highest of all else."""
    everything = [line for lines in gpus for line in lines]
    window = _window(everything)
    clocks = [_values(_window(lines), "sm_clock_mhz") for lines in gpus]
    of_gpus: dict[str, Sequence[float | None]] = {
        "gpu_sm_clock_mhz": [-statistics.median(mhz) for mhz in clocks if mhz],
        "gpu_sm_clock_share": [-share for lines in gpus if (share := _clock_share(lines))],
        "gpu_temperature_c": _values(window, "temperature_c"),
        "gpu_power_capped_share": [_share(lines, POWER_CAP) for lines in gpus],
        "gpu_throttled_share": [_share(lines, sum(THROTTLED)) for lines in gpus],
        "gpu_others_memory_bytes": _values(everything, "others_memory_bytes"),
        "gpu_others_utilisation": _values(everything, "others_utilisation"),
    }
    figures = {name: [v for v in values if v is not None] for name, values in of_gpus.items()}
    worst = {name: abs(float(max(values))) for name, values in figures.items() if values}
    watts = [power_w for lines in gpus if (power_w := _power_w(lines)) is not None]
    # Of all GPUs or of none: a mean over some would be a figure of others
    return {**worst, "gpu_power_w": statistics.fmean(watts)} if len(watts) == len(gpus) else worst


def _power_w(lines: Sequence[GpuRecord]) -> float | None:
    """Return the mean power between the first and the last sample of the window, in watts.

    From the driver's counter of energy, in millijoules. None where there is none, and between
    samples that are less than a second apart: the counter moves in steps.
    """
    samples = [(line["time"], line["energy_mj"]) for line in _window(lines)]
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < _LEAST_ENERGY_S:
        return None
    (begin_s, begin_mj), (end_s, end_mj) = samples[0], samples[-1]
    if begin_mj is None or end_mj is None:
        return None
    return (end_mj - begin_mj) / 1000 / (end_s - begin_s)


def _others_words(index: int, lines: Sequence[GpuRecord]) -> str:
    """Return a sentence if others used the GPU; processes that only hold memory do not count."""
    window = _values(_window(lines), "others_utilisation")
    before = _values([line for line in lines if line["when"] == "before"], "others_utilisation")
    share = statistics.fmean(window) if window else max(before, default=0.0)
    if share <= _OTHERS:
        return ""
    memory = max(_values(lines, "others_memory_bytes"), default=0)
    when = "while it was measured" if window else "before the ranks did"
    return f"others used GPU {index} ({share:.0%} of its time, {memory / 2**30:.1f} GiB) {when}"


def _throttled(index: int, lines: Sequence[GpuRecord]) -> str:
    share = _share(lines, sum(THROTTLED))
    if share is None or share <= _SAMPLES:
        return ""
    window = _window(lines)
    names = [name for bit, name in THROTTLED.items() if _share(lines, bit)]
    figures = [f"{max(values):.0f} °C" for values in [_values(window, "temperature_c")] if values]
    clocks, most = _values(window, "sm_clock_mhz"), _values(window, "max_sm_clock_mhz")
    if clocks and most:
        figures.append(f"SM clock {statistics.median(clocks):.0f} of {max(most):.0f} MHz")
    words = f" ({', '.join(figures)})" if figures else ""
    return (
        f"GPU {index} was throttled by {' and '.join(names)} in {share:.0%} of the samples{words}"
    )


#: Others' share of the host's CPU seconds above which a run does not count. Of 50 recorded
#: runs of 8 s on 2 cores, each of the five that others had hit lost more than 1 CPU s (6 %).
_SHARE: Final = 0.06
#: Of the cores that a run on GPUs leaves idle, the share that others may have: its ranks do not
#: wait for them. Half, since two logical cores are often one. On a machine with few idle cores the
#: bound above counts.
_SPARE: Final = 0.5
#: Time that the hypervisor gave to other guests is lost to all ranks at once, in stretches.
_STEAL: Final = 0.03
#: The kernel counts in ticks of 10 ms; less than this may be rounding.
_LEAST_S: Final = 0.15


class _Window(NamedTuple):
    """The CPU seconds of a rank's window, where the system reports those of its host."""

    node: str
    cores: int
    seconds: float
    own_s: float
    launcher_s: float
    busy_s: float
    stolen_s: float


def disturbance(
    records: Sequence[RankRecords], *, on_gpus: bool = False
) -> tuple[dict[str, float], str]:
    """Return the shares of the worst node's CPU seconds, and a sentence if one is too large.

    ``others``: the share of all processes outside the run, with stolen time; ``steal``: the
    share that the hypervisor took away (proc(5), ``/proc/stat``). Empty, without a sentence,
    where the system does not report it. The worst node is a disturbed one if there is any, and
    the farthest beyond a bound. The order of nodes and ranks does not matter. A run ``on_gpus``
    feels others only where they use cores that it could need: on 192 cores, 12 busy ones slow
    nothing.
    """
    machines: dict[str, list[RankRecords]] = {}
    for rank in records:
        start = rank.by_kind["start"]
        # Nodes that are containers of one machine use its CPUs together.
        machines.setdefault(start.get("boot") or start["node"], []).append(rank)
    nodes = []
    for ranks in machines.values():
        windows = [window for rank in ranks if (window := _host_window(rank)) is not None]
        if len(windows) < len(ranks):
            continue
        node = " and ".join(sorted({window.node for window in windows}))
        shares, sentence = _shares_of_node(node, windows, on_gpus=on_gpus)
        beyond = max(shares["others"] / _SHARE, shares["steal"] / _STEAL)
        nodes.append((bool(sentence), beyond, node, shares, sentence))
    if not nodes:
        return {}, ""
    _, _, _, shares, sentence = max(nodes, key=lambda measured: measured[:3])
    return shares, sentence


def _host_window(records: RankRecords) -> _Window | None:
    start, window = records.by_kind["start"], records.by_kind["window"]
    busy_s, stolen_s = window["host_busy_seconds"], window["host_steal_seconds"]
    if start["cores"] is None or busy_s is None or stolen_s is None:
        return None
    return _Window(
        node=start["node"],
        cores=start["cores"],
        seconds=window["seconds"],
        own_s=window["own_cpu_seconds"],
        launcher_s=window["launcher_cpu_seconds"],
        busy_s=busy_s,
        stolen_s=stolen_s,
    )


def _shares_of_node(
    node: str, windows: Sequence[_Window], *, on_gpus: bool
) -> tuple[dict[str, float], str]:
    # Of ranks that took equally long, the one that saw most
    longest = max(windows, key=lambda w: (w.seconds, w.busy_s + w.stolen_s, w.stolen_s))
    launchers_s: dict[str, float] = {}
    for window in windows:
        launchers_s[window.node] = max(launchers_s.get(window.node, 0.0), window.launcher_s)
    # A launcher passes on what its ranks print; that is the run's own doing.
    own_s = math.fsum(window.own_s for window in windows) + sum(launchers_s.values())
    stolen_s = longest.stolen_s
    others_s = max(0.0, longest.busy_s - own_s) + stolen_s
    host = f"host {node}"
    had_s = longest.seconds * longest.cores
    bound = _SHARE
    if on_gpus:
        bound = max(bound, _SPARE * (1 - own_s / had_s))
    shares = {"others": others_s / had_s, "steal": stolen_s / had_s}
    during = f"while the {longest.seconds:.1f} s were measured"
    if shares["steal"] > _STEAL and stolen_s > _LEAST_S:
        return shares, (
            f"the hypervisor gave {stolen_s:.1f} CPU s of {host} ({shares['steal']:.0%} of it) to "
            f"other guests {during}"
        )
    if shares["others"] > bound and others_s > _LEAST_S:
        return shares, (
            f"others used {others_s:.1f} CPU s of {host} ({shares['others']:.0%} of it) {during}"
        )
    return shares, ""
