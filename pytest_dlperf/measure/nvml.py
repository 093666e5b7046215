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

from pytest_dlperf.core.run import GpuFigures

#: The kernel's number of the first pid namespace (PROC_PID_INIT_INO): the driver counts there.
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC
#: The module has the newer names, even if the driver does not: before R510, and before R535, only
#: the older ones answer. The name without a version is for modules that have no others: newer
#: ones raise an error of Python's for it where the driver is older than they are.
_PROCESSES: Final = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses",
)
_REASONS: Final = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
#: The most links that a GPU has (NVML_NVLINK_MAX_LINKS).
_NVLINKS: Final = 18
#: Of ``nvmlGpuTopologyLevel_t``, in the words of ``nvidia-smi topo -m``.
_PATHS: Final = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
INSTALL: Final = "pip install 'pytest-dlperf[gpu]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSample:
    """One GPU, or one MIG slice, at one moment."""

    figures: GpuFigures
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


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSlice:
    """A partition (MIG) of a GPU."""

    #: Such as ``MIG-6ba0...``.
    uuid: str
    #: Such as ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``.
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFacts:
    """What a GPU is, and how it is set; None for what the driver does not report."""

    name: str
    uuid: str
    driver: str
    memory_mib: int
    compute_capability: float | None
    #: Four hexadecimal digits, as in ``/sys/bus/pci/devices/*/device``.
    pci_device: str | None
    #: Whether the board is partitioned, and its partitions.
    mig: bool | None
    slices: tuple[GpuSlice, ...]
    power_limit_w: float | None
    power_default_w: float | None
    ecc: bool | None
    persistence: bool | None
    #: The clock that somebody set for applications, where it is not the default.
    set_clock_mhz: int | None
    #: Links by NVLink that are up.
    nvlinks: int | None
    #: How far the next GPU is, as ``nvidia-smi topo -m`` says it: PIX, PXB, PHB, NODE, SYS.
    path_to_next: str | None


@dataclass(frozen=True, slots=True)
class _Unit:
    """A board or a slice: the handles that answer for it."""

    index: int
    uuid: str
    handle: Any
    #: Clocks, temperature and reasons are those of the board.
    board: Any


class Nvml:
    """The GPUs of this host, asked one by one. Never resets, never sets anything.

    A GPU that does not answer from the start, as it fell off the bus, is in ``lost``.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        #: What newer modules raise where the driver is older; it is no ``NVMLError``.
        self._mismatch: type[Exception] = getattr(
            module, "NVMLLibraryMismatchError", module.NVMLError
        )
        self._boards: list[_Unit] = []
        #: Why GPUs do not answer, by the driver's number.
        self.lost: dict[int, str] = {}
        for index in range(module.nvmlDeviceGetCount()):
            # Now: a GPU that falls off the bus later answers nothing, and has its name still.
            try:
                handle = module.nvmlDeviceGetHandleByIndex(index)
                uuid = _text(module.nvmlDeviceGetUUID(handle))
            except module.NVMLError as error:
                self.lost[index] = str(error)
            else:
                self._boards.append(_Unit(index, uuid, handle, handle))
        self._units = [*self._boards, *(s for board in self._boards for s in self._slices(board))]

    def sample(self, since_s: float) -> list[GpuSample]:
        """Return every GPU now; what processes used is counted from ``since_s`` of the epoch."""
        since_us = int(since_s * 1e6)
        return [self._sample_of(unit, since_us) for unit in self._units]

    def processes(self) -> list[GpuProcesses]:
        """Return the processes that compute on every GPU now, then on every slice."""
        return [
            GpuProcesses(
                index=unit.index, uuid=unit.uuid, memory_by_process=self._memory(unit.handle)
            )
            for unit in self._units
        ]

    def names(self) -> list[str]:
        """Return the models of the boards."""
        return [self._name(board.handle) for board in self._boards]

    def facts(self) -> list[GpuFacts]:
        """Return what every GPU is, and how it is set now."""
        handles = [board.handle for board in self._boards]
        nexts = [*handles[1:], *handles[:1]]
        return [self._facts(*pair) for pair in zip(self._boards, nexts, strict=True)]

    def _slices(self, board: _Unit) -> list[_Unit]:
        nvml, found = self._module, []
        if not (self._answer("nvmlDeviceGetMigMode", board.handle) or [0])[0]:
            return []
        for index in range(self._answer("nvmlDeviceGetMaxMigDeviceCount", board.handle) or 0):
            handle = self._answer("nvmlDeviceGetMigDeviceHandleByIndex", board.handle, index)
            uuid = None if handle is None else self._ask(nvml.nvmlDeviceGetUUID, handle)
            if uuid is not None:
                found.append(_Unit(board.index, _text(uuid), handle, board.handle))
        return found

    def _facts(self, board: _Unit, following: Any) -> GpuFacts:
        nvml, handle = self._module, board.handle
        memory = self._answer("nvmlDeviceGetMemoryInfo", handle)
        capability = self._answer("nvmlDeviceGetCudaComputeCapability", handle)
        pci = self._answer("nvmlDeviceGetPciInfo", handle)
        mig, ecc = (self._answer(f"nvmlDeviceGet{what}Mode", handle) for what in ("Mig", "Ecc"))
        persistence = self._answer("nvmlDeviceGetPersistenceMode", handle)
        clock, default = (
            self._answer(f"nvmlDeviceGet{which}ApplicationsClock", handle, nvml.NVML_CLOCK_SM)
            for which in ("", "Default")
        )
        level = None
        if len(self._boards) > 1:
            level = self._answer("nvmlDeviceGetTopologyCommonAncestor", handle, following)
        return GpuFacts(
            name=self._name(handle),
            uuid=board.uuid,
            driver=_text(self._answer("nvmlSystemGetDriverVersion") or "unknown"),
            memory_mib=0 if memory is None else memory.total // 2**20,
            compute_capability=None if capability is None else _version(*capability),
            pci_device=None if pci is None else f"{pci.pciDeviceId >> 16:04x}",
            mig=None if mig is None else bool(mig[0]),
            slices=tuple(
                GpuSlice(uuid=s.uuid, name=self._name(s.handle))
                for s in self._units
                if s.board is handle and s.handle is not handle
            ),
            power_limit_w=_watts(self._answer("nvmlDeviceGetEnforcedPowerLimit", handle)),
            power_default_w=_watts(
                self._answer("nvmlDeviceGetPowerManagementDefaultLimit", handle)
            ),
            ecc=None if ecc is None else bool(ecc[0]),
            persistence=None if persistence is None else bool(persistence),
            set_clock_mhz=clock if clock != default else None,
            nvlinks=self._nvlinks(handle),
            path_to_next=_PATHS.get(level) if level is not None else None,
        )

    def _name(self, handle: Any) -> str:
        return _text(self._answer("nvmlDeviceGetName", handle) or "unknown GPU")

    def _nvlinks(self, handle: Any) -> int | None:
        states = [
            self._answer("nvmlDeviceGetNvLinkState", handle, link) for link in range(_NVLINKS)
        ]
        known = [state for state in states if state is not None]
        return sum(known) if known else None

    def _memory(self, handle: Any) -> dict[int, int | None] | None:
        running = self._first_of(_PROCESSES, handle, empty=[])
        return None if running is None else {p.pid: p.usedGpuMemory for p in running}

    def _sample_of(self, unit: _Unit, since_us: int) -> GpuSample:
        nvml, board = self._module, unit.board
        used = self._ask(nvml.nvmlDeviceGetUtilizationRates, unit.handle)
        figures = GpuFigures(
            index=unit.index,
            uuid=unit.uuid,
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, board, nvml.NVML_CLOCK_SM),
            max_sm_clock_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, board, nvml.NVML_CLOCK_SM),
            temperature_c=self._ask(
                nvml.nvmlDeviceGetTemperature, board, nvml.NVML_TEMPERATURE_GPU
            ),
            clock_reasons=self._first_of(_REASONS, board),
            utilisation=None if used is None else used.gpu / 100,
            energy_mj=None
            if unit.handle is not board
            else self._answer("nvmlDeviceGetTotalEnergyConsumption", board),
        )
        try:
            nvml.nvmlDeviceGetUUID(board)
        except nvml.NVMLError as error:  # it answered at the start
            figures["lost"] = str(error)
        return GpuSample(
            figures=figures,
            memory_by_process=self._memory(unit.handle),
            utilisation_by_process=self._utilisation(unit.handle, since_us),
        )

    def _utilisation(self, handle: Any, since_us: int) -> dict[int, float] | None:
        ask = getattr(self._module, "nvmlDeviceGetProcessUtilization", None)
        samples = None if ask is None else self._ask(ask, handle, since_us, empty=[])
        if samples is None:
            return None
        shares: dict[int, float] = {}
        for process in samples:
            shares[process.pid] = max(shares.get(process.pid, 0.0), process.smUtil / 100)
        return shares

    def _answer(self, name: str, *arguments: Any) -> Any:
        """Return an answer; None where the module, this GPU or its driver has none."""
        function = getattr(self._module, name, None)
        return None if function is None else self._ask(function, *arguments)

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
            except self._mismatch:
                continue
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


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _version(major: int, minor: int) -> float:
    return float(f"{major}.{minor}")


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


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
    return os.fsencode(f"DLPERF_RUN={workdir}") in environment.split(b"\0")
