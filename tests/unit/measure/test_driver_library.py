"""What NVIDIA's driver says: the real nvidia-ml-py, on a C library in the driver's place."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_driver import FakeDriver, fake_driver, gpu_lines

pytestmark = pytest.mark.once

SAMPLES = """
from pytest_dlperf.measure.nvml import open_nvml
driver = open_nvml()
found = driver if isinstance(driver, str) else [
    {**one.figures, "held": one.memory_by_process, "use": one.utilisation_by_process}
    for one in driver.sample(1.0)
]
"""
DEVICES = """
from pytest_dlperf.measure import devices
from pathlib import Path
devices._PCI = Path(BUS)
one = devices.detect()
found = {
    "class": [one.machine_class("gpu", n) for n in (1, 2)],
    "hardware": [one.hardware("gpu", n, ran_on=RAN_ON) for n in (1, 2)],
    "visible": one.visible_gpus, "problem": one.gpu_problem, "gpus": len(one.gpus),
    "capability": [gpu.compute_capability for gpu in one.gpus],
}
"""
ENVIRONMENT = """
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.environment import collect
found = dict(collect(detect(), "gpu", {}, pinned=None).machine)
"""
H100 = "NVIDIA H100 80GB HBM3"
A100 = {"name": "NVIDIA A100-SXM4-40GB", "memory": 42949672960, "pci_device": "0x20b010de"}
SLICES = """
slice
uuid MIG-a1
name NVIDIA A100-SXM4-40GB MIG 1g.5gb
process 77 1073741824
slice
uuid MIG-a2
name NVIDIA A100-SXM4-40GB MIG 3g.20gb
""".strip()


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return fake_driver(tmp_path)


def smi(driver: FakeDriver, *names: str, knows_capability: bool = True) -> dict[str, str]:
    """Put an nvidia-smi on a path of its own; return the environment that finds it."""
    script = driver.folder / "bin" / "nvidia-smi"
    script.parent.mkdir(exist_ok=True)
    for query, capability in {"with": ", 9.0", "without": ""}.items():
        lines = [f"{name}, 81559, 570.1{capability}\n" for name in names]
        (script.parent / query).write_text("".join(lines), encoding="utf-8")
    refused = "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2"
    with_capability = f"exec /bin/cat {script.parent}/with" if knows_capability else refused
    script.write_text(
        f'#!/bin/sh\ncase "$1" in *compute_cap*) {with_capability} ;; esac\n'
        f"exec /bin/cat {script.parent}/without\n",
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(script.parent)}


def bus(driver: FakeDriver, *devices: str) -> str:
    """Make a bus of NVIDIA's display controllers with these numbers, and return its folder."""
    for number, device in enumerate(devices):
        folder = driver.folder / "bus" / f"0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        for name, value in {"vendor": "0x10de", "class": "0x030200", "device": device}.items():
            (folder / name).write_text(f"{value}\n", encoding="ascii")
    return str(driver.folder / "bus")


def seen(driver: FakeDriver, folder: str = "/nowhere", ran_on: str | None = None, **environ: str):
    code = DEVICES.replace("BUS", repr(folder)).replace("RAN_ON", repr(ran_on))
    return driver.ask(code, **environ)


def one(driver: FakeDriver) -> dict[str, Any]:
    [sample] = driver.ask(SAMPLES)
    return sample


def test_a_gpu_is_sampled(driver: FakeDriver):
    driver.says(gpu_lines(process=["42 1024", "43 2048"], use="42 40", reasons=0x40, energy=7000))
    assert one(driver) == {
        "index": 0, "uuid": "GPU-1", "sm_clock_mhz": 1900, "max_sm_clock_mhz": 1980,
        "temperature_c": 60, "clock_reasons": 0x40, "utilisation": 0.0,
        "energy_mj": 7000,
        "held": {"42": 1024, "43": 2048}, "use": {"42": 0.4},
    }  # fmt: skip


@pytest.mark.parametrize("manner", ["no symbol", "function not found"])
def test_an_old_driver_answers_by_its_older_names(driver: FakeDriver, manner: str):
    """R470: neither the third list of processes nor the reasons' newer name."""
    newer = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetCurrentClocksEventReasons")
    if manner == "no symbol":
        driver.lacks(*newer)
    fails = "\n".join(f"fail {name} 13" for name in newer) if manner != "no symbol" else ""
    driver.says(gpu_lines(process="42 1024", reasons=8), driver=f"driver 470.1\n{fails}")
    found = one(driver)
    assert found["held"] == {"42": 1024}
    assert found["clock_reasons"] == 8


def test_an_older_driver_leaves_unknown_what_it_has_no_function_for(driver: FakeDriver):
    """R418: no list of processes that the module can read, no use by process, no MIG."""
    driver.lacks(
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetMigMode",
    )  # fmt: skip
    driver.says(gpu_lines(process="42 1024", reasons=8))
    found = one(driver)
    assert (found["held"], found["use"]) == (None, None)
    assert (found["clock_reasons"], found["temperature_c"]) == (8, 60)


def test_what_is_not_supported_is_unknown_and_nothing_else(driver: FakeDriver):
    driver.says(gpu_lines(), driver="fail nvmlDeviceGetTemperature 3")
    found = one(driver)
    assert found["temperature_c"] is None
    assert found["sm_clock_mhz"] == 1900
    assert found["held"] == {}  # nobody: the driver said so


def test_a_driver_that_does_not_load_is_a_sentence(driver: FakeDriver):
    driver.says(driver="fail nvmlInitWithFlags 9")
    assert driver.ask(SAMPLES) == "nvidia-ml-py cannot ask the driver: Driver Not Loaded"


def test_a_gpu_that_is_lost_from_the_start_is_named_and_the_others_answer(driver: FakeDriver):
    driver.says(gpu_lines(fail="* 15"), gpu_lines(uuid="GPU-2"))
    found = driver.ask(
        "from pytest_dlperf.measure.nvml import open_nvml\nd = open_nvml()\n"
        "found = [d.lost, [p.uuid for p in d.processes()], [p.index for p in d.processes()]]"
    )
    assert found == [{"0": "GPU is lost"}, ["GPU-2"], [1]]


def test_a_gpu_that_is_lost_in_the_window_is_a_sentence(driver: FakeDriver):
    """It answers twice: at the start, and in the first sample."""
    driver.says(gpu_lines(fail=["nvmlDeviceGetUUID 15 2", "nvmlDeviceGetClockInfo 15 1"]))
    code = """
from pytest_dlperf.measure.nvml import open_nvml
d = open_nvml()
found = [d.sample(1.0)[0].figures for _ in range(2)]
"""
    first, last = driver.ask(code)
    assert "lost" not in first
    assert (first["sm_clock_mhz"], last["sm_clock_mhz"]) == (1900, None)
    assert (last["uuid"], last["lost"]) == ("GPU-1", "GPU is lost")


def test_slices_are_sampled_with_the_clocks_of_their_board(driver: FakeDriver):
    driver.says(gpu_lines(mig=1, energy=7000, **A100), SLICES)
    board, first, second = driver.ask(SAMPLES)
    assert [s["energy_mj"] for s in (board, first, second)] == [7000, None, None]
    assert [s["uuid"] for s in (board, first, second)] == ["GPU-1", "MIG-a1", "MIG-a2"]
    assert (first["held"], second["held"]) == ({"77": 2**30}, {})
    assert (second["index"], second["sm_clock_mhz"], second["utilisation"]) == (0, 1900, None)


def test_a_slice_is_not_its_board(driver: FakeDriver):
    """A8: ``MIG 1g.5gb`` had the machine class of the whole A100."""
    driver.says(gpu_lines(mig=1, **A100), SLICES)
    path = smi(driver, A100["name"])
    chosen = seen(driver, **path, CUDA_VISIBLE_DEVICES="MIG-a2")
    assert chosen["class"][0] == "1x-a100-sxm4-40gb-mig-3g-20gb"
    assert chosen["hardware"][0] == "1x-a100-sxm4-40gb-mig-3g-20gb"
    assert seen(driver, **path)["class"][0] == "1x-a100-sxm4-40gb-mig-1g-5gb"


def test_a_slice_that_only_the_rank_knew_is_in_the_hardware(driver: FakeDriver):
    driver.says(gpu_lines(**A100))
    found = seen(driver, ran_on="NVIDIA A100-SXM4-40GB MIG 1g.5gb", **smi(driver, A100["name"]))
    assert found["class"][0] == "1x-a100-sxm4-40gb"
    assert found["hardware"][0] == "1x-a100-sxm4-40gb-mig-1g-5gb"


@pytest.mark.parametrize(
    ("environ", "slugs"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-2"}, ["1x-a100-sxm4-40gb"] * 2),
        (
            {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            ["1x-h100-80gb-hbm3", "1x-a100-sxm4-40gb+1x-h100-80gb-hbm3"],
        ),
        (
            {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"},
            ["1x-a100-sxm4-40gb", "1x-a100-sxm4-40gb+1x-h100-80gb-hbm3"],
        ),
        # CUDA numbers the fastest first: which one that is, only the rank knows
        ({}, ["1x-a100-sxm4-40gb+1x-h100-80gb-hbm3"] * 2),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["1x-a100-sxm4-40gb+1x-h100-80gb-hbm3"] * 2),
    ],
)
def test_of_two_models_the_class_is_that_of_those_that_run(
    driver: FakeDriver, environ: dict[str, str], slugs: list[str]
):
    driver.says(gpu_lines(), gpu_lines(**A100, uuid="GPU-2"))
    found = seen(driver, ran_on=None, **smi(driver, H100, A100["name"]), **environ)
    assert found["class"] == slugs


def test_of_two_models_the_hardware_is_what_the_rank_named(driver: FakeDriver):
    driver.says(gpu_lines(), gpu_lines(**A100, uuid="GPU-2"))
    path = smi(driver, H100, A100["name"])
    assert seen(driver, ran_on=A100["name"], **path)["hardware"][0] == "1x-a100-sxm4-40gb"
    assert seen(driver, ran_on=H100, **path)["hardware"][0] == "1x-h100-80gb-hbm3"


def test_a_container_with_one_of_eight_is_on_the_machine_of_eight(driver: FakeDriver):
    """Containers see the bus of the host; so does a node that lost a GPU."""
    driver.says(gpu_lines())
    folder = bus(driver, *["0x2330"] * 8, "0x20b0")
    found = seen(driver, folder, ran_on=H100, **smi(driver, H100))
    assert (found["class"][0], found["gpus"]) == ("8x-h100-80gb-hbm3", 1)
    assert found["hardware"][0] == "8x-h100-80gb-hbm3"


def test_a_changed_power_limit_is_a_changed_machine(driver: FakeDriver):
    path = smi(driver, H100)
    driver.says(gpu_lines(power_limit=500000))
    found = seen(driver, ran_on=H100, **path)
    assert found["class"][0] == "1x-h100-80gb-hbm3"  # the key of its baselines
    assert found["hardware"][0] == "1x-h100-80gb-hbm3-at-500w"
    # What is enforced wanders by less than a watt or so
    for limit_mw in (700000, 699700):
        driver.says(gpu_lines(power_limit=limit_mw))
        assert seen(driver, ran_on=H100, **path)["hardware"][0] == "1x-h100-80gb-hbm3"


def test_how_gpus_are_set_is_in_the_environment(driver: FakeDriver):
    other = gpu_lines(uuid="GPU-2", power_limit=500000, set_clock=1410, ecc=0, persistence=0)
    driver.says(gpu_lines(), other)
    found = driver.ask(ENVIRONMENT, **smi(driver, H100, H100))
    assert found["gpu power limit"] == "700 W / 500 W (default 700 W)"
    assert found["gpu clocks set"] == "1410 MHz"
    assert (found["gpu ecc"], found["gpu persistence"], found["gpu mig"]) == ("on / off",) * 2 + (
        "off",
    )
    assert (found["gpu nvlinks"], found["gpu path to the next"]) == ("18", "SYS")
    alone = driver.ask(ENVIRONMENT, **smi(driver, H100, H100), CUDA_VISIBLE_DEVICES="1")
    assert alone["gpu power limit"] == "500 W (default 700 W)"


def test_a_container_without_nvidia_smi_has_the_gpus_that_the_driver_names(driver: FakeDriver):
    driver.says(gpu_lines(), gpu_lines(uuid="GPU-2"))
    folder = bus(driver, "0x2330", "0x2330")
    found = seen(driver, folder, PATH=str(driver.folder))
    assert (found["problem"], found["gpus"], found["visible"]) == ("", 2, 2)
    assert found["class"] == ["2x-h100-80gb-hbm3"] * 2
    assert found["capability"] == [9.0, 9.0]


def test_without_both_the_sentence_says_what_is_missing(driver: FakeDriver):
    driver.says(driver="fail nvmlInitWithFlags 9")
    found = seen(driver, bus(driver, "0x2330"), PATH=str(driver.folder))
    assert found["visible"] == 0
    assert "there is no nvidia-smi, and NVML does not answer" in found["problem"]
    assert "Driver Not Loaded" in found["problem"]


def test_an_old_nvidia_smi_knows_no_capability(driver: FakeDriver):
    """R450: the field made the whole question fail, and the GPUs unusable."""
    driver.says(driver="fail nvmlInitWithFlags 9")
    found = seen(driver, **smi(driver, "Tesla V100-SXM2-32GB", knows_capability=False))
    assert (found["problem"], found["gpus"], found["capability"]) == ("", 1, [None])
