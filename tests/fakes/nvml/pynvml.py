"""A pynvml without a driver: it reports what the JSON file FAKE_NVML says.

Names and signatures are those of nvidia-ml-py; a field that the file leaves out is not supported.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

NVML_CLOCK_SM = 1
NVML_TEMPERATURE_GPU = 0
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_GPU_IS_LOST = 15


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value

    def __str__(self):
        names = {
            3: "Not Supported", 6: "Not Found", 9: "Driver Not Loaded", 13: "Function Not Found",
            15: "GPU is lost",
        }  # fmt: skip
        return names[self.value]


def _gpus():
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text(encoding="utf-8"))


def _field(handle, name):
    gpu = _gpus()[handle]
    if gpu.get("lost"):
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    if name not in gpu:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return gpu[name]


def nvmlInit():
    if "FAKE_NVML" not in os.environ:
        raise NVMLError(NVML_ERROR_DRIVER_NOT_LOADED)


def nvmlDeviceGetCount():
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetUUID(handle):
    return _field(handle, "uuid")


def _newer(handle):
    """Raise for a driver that lacks the newer function: the module has its name all the same."""
    if _gpus()[handle].get("old_driver"):
        raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND)


def nvmlDeviceGetUtilizationRates(handle):
    return SimpleNamespace(gpu=_field(handle, "used"), memory=1)


def nvmlDeviceGetComputeRunningProcesses(handle):
    _newer(handle)
    return nvmlDeviceGetComputeRunningProcesses_v2(handle)


def nvmlDeviceGetComputeRunningProcesses_v2(handle):
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in _field(handle, "processes")
    ]


def nvmlDeviceGetProcessUtilization(handle, timeStamp):
    found = _field(handle, "process_use")
    if not found:
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return [SimpleNamespace(pid=pid, timeStamp=timeStamp + 1, smUtil=use) for pid, use in found]


def nvmlDeviceGetClockInfo(handle, kind):
    assert kind == NVML_CLOCK_SM
    return _field(handle, "clock")


def nvmlDeviceGetMaxClockInfo(handle, kind):
    assert kind == NVML_CLOCK_SM
    return _field(handle, "max_clock")


def nvmlDeviceGetCurrentClocksEventReasons(handle):
    _newer(handle)
    return nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return _field(handle, "reasons")


def nvmlDeviceGetTotalEnergyConsumption(handle):
    return _field(handle, "energy")


def nvmlDeviceGetTemperature(handle, sensor):
    assert sensor == NVML_TEMPERATURE_GPU
    return _field(handle, "temperature")
