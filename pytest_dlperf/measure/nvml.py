"""Asks NVIDIA's driver about its GPUs, through nvidia-ml-py where that is installed."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: The kernel's number of the first pid namespace (PROC_PID_INIT_INO): the driver counts there.
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC
#: The module has the newer names whatever the driver has: before R510, and before R535, only the
#: older ones answer.
_PROCESSES: Final = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
_REASONS: Final = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
INSTALL: Final = "pip install 'pytest-dlperf[gpu]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSample:
    """One GPU at one moment; None for values that the driver does not report."""

    index: int
    #: Such as ``GPU-8932f937-d72c-4106-c12f-20bd9faed9f6``.
    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    temperature_c: int | None
    #: Bits of ``nvmlClocksEventReason*``.
    clock_reasons: int | None
    #: Share of the last moments that any kernel ran, of any process.
    utilisation: float | None
    #: Bytes held by each process; None where the driver does not report them.
    memory_by_process: dict[int, int | None] | None
    #: The largest share of the multiprocessors' time that each process had lately; None where
    #: the driver does not distinguish processes.
    utilisation_by_process: dict[int, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcesses:
    """The processes that have a context on one GPU; None where the driver does not report them."""

    index: int
    uuid: str
    #: Bytes held by each.
    memory_by_process: dict[int, int | None] | None


class Nvml:
    """The GPUs of this host, asked one by one. Never resets, never sets anything."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handles = [
            module.nvmlDeviceGetHandleByIndex(i) for i in range(module.nvmlDeviceGetCount())
        ]
        # Now: a GPU that falls off the bus later answers nothing, and has its name still.
        self._uuids = [self._uuid(handle) for handle in self._handles]

    def sample(self, since_s: float) -> list[GpuSample]:
        """Return every GPU now; what processes used is counted from ``since_s`` of the epoch."""
        since_us = int(since_s * 1e6)
        return [self._one(i, handle, since_us) for i, handle in enumerate(self._handles)]

    def processes(self) -> list[GpuProcesses]:
        """Return the processes that compute on every GPU now."""
        return [
            GpuProcesses(
                index=index, uuid=self._uuids[index], memory_by_process=self._memory(handle)
            )
            for index, handle in enumerate(self._handles)
        ]

    def _memory(self, handle: Any) -> dict[int, int | None] | None:
        running = self._first_of(_PROCESSES, handle, empty=[])
        return None if running is None else {p.pid: p.usedGpuMemory for p in running}

    def _uuid(self, handle: Any) -> str:
        uuid = self._module.nvmlDeviceGetUUID(handle)
        return uuid.decode() if isinstance(uuid, bytes) else str(uuid)

    def _one(self, index: int, handle: Any, since_us: int) -> GpuSample:
        nvml = self._module
        used = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        return GpuSample(
            index=index,
            uuid=self._uuids[index],
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            max_sm_clock_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            temperature_c=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            clock_reasons=self._first_of(_REASONS, handle),
            utilisation=None if used is None else used.gpu / 100,
            memory_by_process=self._memory(handle),
            utilisation_by_process=self._by_process(handle, since_us),
        )

    def _by_process(self, handle: Any, since_us: int) -> dict[int, float] | None:
        ask = getattr(self._module, "nvmlDeviceGetProcessUtilization", None)
        samples = None if ask is None else self._ask(ask, handle, since_us, empty=[])
        if samples is None:
            return None
        found: dict[int, float] = {}
        for one in samples:
            found[one.pid] = max(found.get(one.pid, 0.0), one.smUtil / 100)
        return found

    def _first_of(self, names: tuple[str, ...], handle: Any, empty: Any = None) -> Any:
        """Return the answer of the first function that both module and driver have."""
        for name in names:
            ask = getattr(self._module, name, None)
            if ask is None:
                continue
            try:
                return ask(handle)
            except self._module.NVMLError as error:
                if error.value == self._module.NVML_ERROR_FUNCTION_NOT_FOUND:
                    continue
                return empty if error.value == self._module.NVML_ERROR_NOT_FOUND else None
        return None

    def _ask(self, function: Callable[..., Any], *arguments: Any, empty: Any = None) -> Any:
        """Return an answer; None where this GPU, its driver or its partition has none.

        ``empty`` is returned where the driver says that nothing was found.
        """
        try:
            return function(*arguments)
        except self._module.NVMLError as error:
            return empty if error.value == self._module.NVML_ERROR_NOT_FOUND else None


@functools.cache
def open_nvml() -> Nvml | str:
    """Return the GPUs of this host, or why they cannot be asked."""
    try:
        module: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError:
        return f"nvidia-ml-py is not installed; {INSTALL} brings it"
    try:
        module.nvmlInit()
        return Nvml(module)
    except module.NVMLError as error:
        return f"nvidia-ml-py cannot ask the driver: {error}"


def nvml_version() -> str | None:
    """Return the version of nvidia-ml-py, which is not imported for it; None if there is none."""
    try:
        return importlib.metadata.version("nvidia-ml-py")
    except importlib.metadata.PackageNotFoundError:
        return None


def counts_our_processes() -> bool:
    """Return whether the driver and this process number processes alike.

    In a container with its own process numbers the driver's name other processes, or none.
    """
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def belongs_to_run(pid: int, workdir: str) -> bool:
    """Return whether a process of this host was started by the run of ``workdir``."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # it ended, or belongs to another user
    return f"DLPERF_RUN={workdir}".encode() in environment.split(b"\0")
