"""Samples the GPUs of this node about once a second while ranks run; never in a rank.

The samples are in ``gpus.jsonl`` of the run's folder: one line for each GPU and moment.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final, Literal

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import GpuRecord, LaunchPlan
from pytest_dlperf.measure import nvml
from pytest_dlperf.measure.nvml import GpuSample, Nvml
from pytest_dlperf.measure.records import read_progress
from pytest_dlperf.measure.visible_gpus import chooses_itself, gpus_of

FILE: Final = "gpus.jsonl"
_PERIOD_S: Final = 1.0


class GpuWatch:
    """The GPUs during one run; does nothing for CPU cases, and without nvidia-ml-py."""

    def __init__(self, case: Case, plan: LaunchPlan, *, other_arm: str = "") -> None:
        """``other_arm`` is the folder of the run that takes turns with this one, if any."""
        found = nvml.open_nvml() if case.layout.device == "gpu" else ""
        self._nvml = None if isinstance(found, str) else found
        self._protocol = case.protocol
        self._workdir = plan.workdir
        self._own_folders = [folder for folder in (plan.workdir, other_arm) if folder]
        self._chosen = None if self._nvml is None else _chosen(case, plan, self._nvml)
        self._knows_ours = nvml.counts_our_processes()
        # The driver's figures contain the run before for as long as this.
        self._next_s = time.monotonic() + _PERIOD_S
        self._looked_before = False
        self._asked_s = time.time()

    def tick(self, records: Path) -> None:
        """Take a sample if one is due: before ranks use a GPU, then in the window."""
        if self._nvml is None or time.monotonic() < self._next_s:
            return
        done = [progress.iterations for progress in read_progress(records)]
        if not self._looked_before and max(done, default=-1) < 0:
            self._looked_before = True
            self._write("before")
        elif done and self._protocol.warmup <= min(done) < self._protocol.iterations:
            self._write("window")
            self._next_s = time.monotonic() + _PERIOD_S

    def _write(self, when: Literal["before", "window"]) -> None:
        assert self._nvml is not None
        since_s, self._asked_s = self._asked_s, time.time()
        samples = self._nvml.sample(since_s)
        lines = [json.dumps(self._record(when, sample)) for sample in samples]
        with (Path(self._workdir) / FILE).open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def _record(self, when: Literal["before", "window"], sample: GpuSample) -> GpuRecord:
        """Return the record of a sample; the figures of others are None where they are unknown."""
        held = sample.memory_by_process
        own_pids: set[int] = set()
        if self._knows_ours:
            own_pids = {
                pid
                for pid in {*(held or ()), *(sample.utilisation_by_process or ())}
                if any(nvml.belongs_to_run(pid, folder) for folder in self._own_folders)
            }
        other_pids = memory = None
        if held is not None and (self._knows_ours or when == "before"):
            other_pids = set(held) - own_pids
            memory = sum(held[pid] or 0 for pid in other_pids)
        used = None
        if self._knows_ours and sample.utilisation_by_process is not None:
            used = sum(
                v for pid, v in sample.utilisation_by_process.items() if pid not in own_pids
            )
        elif when == "before":
            used = sample.figures["utilisation"]
        record: GpuRecord = {
            **sample.figures,
            "when": when,
            "time": time.time(),
            "others": None if other_pids is None else len(other_pids),
            "others_memory_bytes": memory,
            "others_utilisation": used,
        }
        if self._chosen is not None:
            record["chosen"] = record["uuid"] in self._chosen
        return record


def _chosen(case: Case, plan: LaunchPlan, driver: Nvml) -> set[str] | None:
    """Return the UUIDs of the GPUs that ranks see on this node; None if nobody knows them."""
    if chooses_itself(plan.argv) or driver.lost:
        return None
    gpus = driver.processes()
    environ = {**os.environ, **plan.env}
    found = gpus_of(case.layout.devices_per_node, gpus, driver.names(), environ)
    return None if isinstance(found, str) else {gpus[place].uuid for place in found}
