"""Other processes, clocks and throttling of GPUs, as NVIDIA's driver reports them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.cli import doctor
from pytest_dlperf.core.run import Run, RunSummary
from pytest_dlperf.measure import gpu_watch, nvml
from pytest_dlperf.measure.devices import Devices, Gpu
from pytest_dlperf.measure.environment import collect
from pytest_dlperf.measure.gpu_watch import GpuWatch
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, changed, rank_records, write

FAKES = Path(__file__).parents[2] / "fakes" / "nvml"
UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
GIB = 2**30
QUIET: dict[str, Any] = {
    "uuid": UUID, "used": 99, "processes": [], "process_use": [], "clock": 1900,
    "max_clock": 2000, "reasons": 0, "temperature": 60,
}  # fmt: skip
CASE = case("1n1g")


class Watched:
    """One run on a fake GPU: what the driver says before the ranks start, and while they run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = folder / "nvml.json"
        self.folder = folder / "run1"
        monkeypatch.setenv("FAKE_NVML", str(self.told))
        monkeypatch.syspath_prepend(str(FAKES))
        sys.modules.pop("pynvml", None)
        monkeypatch.setattr(gpu_watch, "_PERIOD_S", 0.0)
        self.run: Run = write(self.folder, [self.records(UUID.removeprefix("GPU-").upper())])

    @staticmethod
    def records(device_id: str | None) -> list[dict[str, Any]]:
        records = rank_records(0, world_size=1)
        return changed(records, "framework", device_id=device_id)

    def summary(self, before: list[dict[str, Any]], *window: list[dict[str, Any]]) -> RunSummary:
        for name in (gpu_watch.FILE, "rank00000.progress"):
            (self.folder / name).unlink(missing_ok=True)
        self.told.write_text(json.dumps(before))
        nvml.open_nvml.cache_clear()
        watch = GpuWatch(CASE, self.run.plan)
        watch.tick(self.folder)
        for gpus in window:
            self.told.write_text(json.dumps(gpus))
            (self.folder / "rank00000.progress").write_bytes(struct.pack("<qd", 15, 1.0))
            watch.tick(self.folder)
        return summarise(CASE, self.run)[0]

    def lines(self) -> list[dict[str, Any]]:
        """Return what the watch wrote, sample by sample."""
        text = (self.folder / gpu_watch.FILE).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    yield Watched(tmp_path, monkeypatch)
    nvml.open_nvml.cache_clear()
    sys.modules.pop("pynvml", None)


def gpu(**values: Any) -> list[dict[str, Any]]:
    return [QUIET | values]


def test_clocks_and_temperature_are_recorded(watched: Watched):
    found = watched.summary(
        gpu(used=0), gpu(clock=1900), gpu(clock=1700, reasons=4, temperature=75), gpu(clock=1800)
    )
    assert found.disturbed == ""
    assert found.extras["gpu_sm_clock_mhz"] == 1800
    assert found.extras["gpu_sm_clock_share"] == pytest.approx(0.9)
    assert found.extras["gpu_temperature_c"] == 75
    # To be at the power limit is normal on many boards.
    assert found.extras["gpu_power_capped_share"] == pytest.approx(1 / 3)
    assert found.extras["gpu_throttled_share"] == 0


@pytest.mark.parametrize(
    ("reasons", "name"),
    [
        (0x08, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "power brake"),
    ],
)
def test_a_throttled_gpu_disturbs(watched: Watched, reasons: int, name: str):
    slow = gpu(reasons=reasons | 4, clock=1000, temperature=90)
    found = watched.summary(gpu(used=0), slow, gpu())
    assert found.disturbed == (
        f"GPU 0 was throttled by {name} in 50% of the samples (90 °C, SM clock 1450 of 2000 MHz)"
    )


def test_an_old_driver_is_asked_by_the_older_names(watched: Watched):
    """V100s under R450 and R470: the module has newer functions, the driver does not."""
    slow = gpu(old_driver=True, reasons=0x08, clock=1000)
    found = watched.summary(gpu(old_driver=True, processes=[[4242, GIB]]), slow)
    assert "GPU 0 was throttled by hardware slowdown" in found.disturbed
    assert found.extras["gpu_others_memory_bytes"] == GIB


@pytest.mark.parametrize(
    ("seconds", "joules"),
    # By the counter, in millijoules: 300 J in two seconds; half a second is too short for it.
    [((0.0, 0.0, 1.0, 2.0), 150 / 40), ((0.0, 0.0, 0.25, 0.5), None)],
)
def test_energy_for_a_sample_is_power_over_the_rate(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], joules: float
):
    # Asked once at the start, and twice for each sample
    times = iter([0.0, *(moment for moment in seconds for _ in range(2))])
    clock = SimpleNamespace(time=lambda: 5000 + next(times), monotonic=time.monotonic)
    monkeypatch.setattr(gpu_watch, "time", clock)
    window = [gpu(energy=900_000 + mj) for mj in (0, 100_000, 300_000)]
    found = watched.summary(gpu(used=0), *window)
    assert found.throughput == pytest.approx(40)
    assert found.extras.get("gpu_power_w") == (joules and pytest.approx(150))
    assert found.extras.get("joules_per_unit") == (joules and pytest.approx(joules))


def test_two_arms_in_turns_share_their_energy(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    times = iter(float(second) for second in range(100))
    clock = SimpleNamespace(time=lambda: 5000 + next(times), monotonic=time.monotonic)
    monkeypatch.setattr(gpu_watch, "time", clock)
    records = [
        *watched.records(UUID),
        {"rank": 0, "record": "turns", "first_steps": [10, 15], "waited_cpu_seconds": 0.0},
    ]
    watched.run = write(watched.folder, [records])
    found = watched.summary(gpu(used=0), gpu(energy=0), gpu(energy=100_000))
    assert "gpu_power_w" in found.extras
    assert "joules_per_unit" not in found.extras


def test_without_a_counter_of_energy_there_is_none(watched: Watched):
    found = watched.summary(gpu(used=0), gpu(), gpu())
    assert not {"gpu_power_w", "joules_per_unit"} & set(found.extras)


def test_processes_that_the_driver_does_not_report_are_not_none_at_all(watched: Watched):
    unknown = gpu()
    del unknown[0]["processes"]
    found = watched.summary(unknown, unknown)
    assert "gpu_others_memory_bytes" not in found.extras
    assert [line["others"] for line in watched.lines()] == [None, None]


def test_a_gpu_that_falls_off_the_bus_is_a_sentence(watched: Watched):
    found = watched.summary(gpu(), gpu(clock=1500), gpu(lost=True))
    assert found.extras["gpu_sm_clock_mhz"] == 1500
    last = watched.lines()[-1]
    assert (last["uuid"], last["sm_clock_mhz"], last["temperature_c"]) == (UUID, None, None)
    assert found.disturbed.startswith("GPU 0 does not answer its driver any more (GPU is lost)")


def test_another_process_disturbs_where_process_ids_are_ours_to_compare(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nvml, "counts_our_processes", lambda: True)
    environment = {**os.environ, "DLPERF_RUN": watched.run.plan.workdir}
    rank = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert rank.stdout is not None
    rank.stdout.readline()
    try:
        mine, other = (rank.pid, 8 * GIB), (os.getpid(), 3 * GIB)
        alone = gpu(processes=[mine], process_use=[(rank.pid, 90)])
        shared = gpu(processes=[mine, other], process_use=[(rank.pid, 50), (os.getpid(), 40)])
        idle = gpu(processes=[mine, other], process_use=[(rank.pid, 90)])
        found = watched.summary(gpu(), alone, shared)
        holding = watched.summary(gpu(), idle)
    finally:
        rank.communicate(b"\n")
    assert found.disturbed == "others used GPU 0 (20% of its time, 3.0 GiB) while it was measured"
    # Memory that somebody holds slows nothing.
    assert holding.disturbed == ""
    assert holding.extras["gpu_others_memory_bytes"] == 3 * GIB


def test_where_process_ids_are_not_ours_only_what_was_before_counts(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nvml, "counts_our_processes", lambda: False)
    busy = gpu(used=30, processes=[(os.getpid(), 2 * GIB)], process_use=[(os.getpid(), 30)])
    found = watched.summary(busy, busy)
    assert found.disturbed == "others used GPU 0 (30% of its time, 2.0 GiB) before the ranks did"
    assert watched.summary(gpu(used=0), busy).disturbed == ""


def test_only_gpus_of_the_ranks_count(watched: Watched):
    other = {**QUIET, "uuid": "GPU-other", "reasons": 0x40, "clock": 100}
    found = watched.summary([QUIET | {"used": 0}, other], [QUIET, other])
    assert found.disturbed == ""
    assert found.extras["gpu_sm_clock_mhz"] == 1900


@pytest.mark.parametrize(
    ("visible", "disturbed"),
    [(None, False), ("GPU-other", True), ("1", True), ("0,1", False), ("MIG-7", True)],
)
def test_where_a_rank_names_no_gpu_those_of_its_environment_count(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, visible: str | None, disturbed: bool
):
    """TensorFlow and marked programs: others on GPUs of other people disturb nothing.

    ``MIG-7`` is a partition that the driver does not name: then all GPUs of the node count.
    """
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    watched.run = write(watched.folder, [watched.records(None)])
    other = {**QUIET, "uuid": "GPU-other", "reasons": 0x40, "clock": 100}
    found = watched.summary([QUIET | {"used": 0}, other], [QUIET, other])
    assert bool(found.disturbed) is disturbed
    assert found.extras["gpu_throttled_share"] == disturbed


def test_a_rank_on_a_slice_has_the_samples_of_its_slice(watched: Watched):
    watched.run = write(watched.folder, [watched.records("6ba0")])
    slices = [QUIET | {"uuid": "MIG-6ba0", "clock": 1000}, QUIET | {"uuid": "MIG-7cb1"}]
    found = watched.summary([QUIET, *slices], [QUIET, *slices])
    assert found.extras["gpu_sm_clock_mhz"] == 1000


def test_what_a_driver_does_not_report_is_unknown(watched: Watched):
    found = watched.summary([{"uuid": UUID}], [{"uuid": UUID}])
    assert found.disturbed == ""
    assert not any(name.startswith("gpu_sm") for name in found.extras)
    assert "gpu_temperature_c" not in found.extras
    lines = (watched.folder / gpu_watch.FILE).read_text().splitlines()
    assert json.loads(lines[1])["sm_clock_mhz"] is None


def test_outside_of_the_window_nothing_is_sampled(watched: Watched):
    watched.told.write_text(json.dumps(gpu()))
    nvml.open_nvml.cache_clear()
    watch = GpuWatch(CASE, watched.run.plan)
    for iterations in (3, 9, 20):
        (watched.folder / "rank00000.progress").write_bytes(struct.pack("<qd", iterations, 1.0))
        watch.tick(watched.folder)
    assert not (watched.folder / gpu_watch.FILE).exists()


def test_the_first_sample_has_nothing_of_the_run_before(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    """B5: what a driver says of the use of a GPU is of up to a second before."""
    clock = SimpleNamespace(now_s=50.0)
    time = SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: 1e9)
    monkeypatch.setattr(gpu_watch, "time", time)
    monkeypatch.setattr(gpu_watch, "_PERIOD_S", 1.0)
    watched.told.write_text(json.dumps(gpu()))
    nvml.open_nvml.cache_clear()
    watch = GpuWatch(CASE, watched.run.plan)
    (watched.folder / "rank00000.progress").unlink(missing_ok=True)
    for clock.now_s in (50.0, 50.99):
        watch.tick(watched.folder)
    assert not (watched.folder / gpu_watch.FILE).exists()
    clock.now_s = 51.0
    watch.tick(watched.folder)
    assert [line["when"] for line in watched.lines()] == ["before"]


def test_a_cpu_case_asks_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nvml, "open_nvml", lambda: pytest.fail("it was asked"))
    run = write(tmp_path, [rank_records(0, world_size=1)])
    GpuWatch(case("1n1c"), run.plan).tick(tmp_path)
    assert not any(name.startswith("gpu") for name in summarise(case("1n1c"), run)[0].extras)


def one_gpu() -> Devices:
    v100 = Gpu(name="V100", memory_mib=32510, driver="450", compute_capability=7.0)
    return Devices(
        gpus=(v100,), visible_gpus=1, gpu_problem="", cores=2, visible_cores=2, cpu_name="cpu"
    )


def test_without_nvidia_ml_py_doctor_and_environment_say_so(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    nvml.open_nvml.cache_clear()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(doctor, "detect", one_gpu)
    told = [line for line in doctor.examine()["missing"] if "not watched" in line]
    nvml.open_nvml.cache_clear()
    assert len(told) == 1
    assert told[0].endswith(
        "nvidia-ml-py is not installed; pip install 'pytest-dlperf[gpu]' brings it"
    )
    monkeypatch.setattr(importlib.metadata, "version", version)
    software = collect(one_gpu(), "gpu", {}, pinned=None).software
    assert software["gpu samples"].startswith("none: no nvidia-ml-py")
    assert "gpu samples" not in collect(one_gpu(), "cpu", {}, pinned=None).software


def test_a_driver_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch):
    nvml.open_nvml.cache_clear()
    monkeypatch.delenv("FAKE_NVML", raising=False)
    monkeypatch.syspath_prepend(str(FAKES))
    sys.modules.pop("pynvml", None)
    assert nvml.open_nvml() == "nvidia-ml-py cannot ask the driver: Driver Not Loaded"
    nvml.open_nvml.cache_clear()
    sys.modules.pop("pynvml", None)
