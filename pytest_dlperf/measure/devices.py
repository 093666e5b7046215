"""Finds the GPUs and the CPU of this host, without a framework."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.measure.nvml import GpuFacts, GpuProcesses, Nvml, open_nvml
from pytest_dlperf.measure.visible_gpus import gpus_of

_QUERY: Final = "name,memory.total,driver_version"
_CAPABILITY: Final = "compute_cap"
_PCI: Final = Path("/sys/bus/pci/devices")
#: From so many watts on, a limit on power is another one than the model's own.
_OTHER_LIMIT_W: Final = 5.0
_NVIDIA: Final = "0x10de"
_CPU_INFO: Final = Path("/proc/cpuinfo")
#: Linux names of the bfloat16 instructions of x86 and Arm.
_BF16: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
#: PCI classes of VGA and 3D controllers.
_DISPLAY: Final = ("0x0300", "0x0302")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU as its driver names it."""

    name: str
    memory_mib: int
    driver: str
    #: CUDA compute capability; None if the driver does not report it.
    compute_capability: float | None
    #: GPUs of this model on the bus of the host; a container may see fewer. 0 if unknown.
    on_bus: int = 0
    #: What nvidia-ml-py says of it; None without it.
    facts: GpuFacts | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenGpu:
    """A GPU, or a MIG slice, as ranks see it."""

    #: Its place, or that of its board, in ``Devices.gpus``.
    number: int
    #: Such as ``a100-sxm4-40gb-mig-1g-5gb``.
    slug: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """The devices of this host."""

    #: Physical GPUs, visible to this process or not.
    gpus: tuple[Gpu, ...]
    #: Number of GPUs that a process started here may use.
    visible_gpus: int
    #: Why GPUs that are present cannot be used; empty if they can, or if there are none.
    gpu_problem: str
    #: CPU cores of the host, and those that a process started here may use.
    cores: int
    visible_cores: int
    cpu_name: str
    #: Whether the CPU has instructions for bfloat16; None if that is not known.
    cpu_has_bf16: bool | None = None

    #: The GPUs that ranks see, in their order; empty if nobody knows which those are.
    seen: tuple[SeenGpu, ...] = ()

    def machine_class(self, device: str, count: int | None = None) -> str:
        """Return the slug of the hardware, such as ``8x-v100-sxm2-32gb``.

        Of GPUs, the models of the first ``count`` that ranks see (None: of all), each with the
        number of them that the host has, visible or not.
        """
        if device == "cpu":
            return f"{self.cores}x-{_cpu_slug(self.cpu_name)}"
        return self._class_of(sorted({gpu.slug for gpu in self._used(count)}))

    def hardware(self, device: str, count: int, *, ran_on: str | None) -> str:
        """Return the machine class of the devices that ran, and their power limit.

        ``ran_on`` is the name of a rank's GPU as its framework has it; it counts where it is
        another one than the environment's variables say. A limit on power that is not the
        model's own is another machine: ``8x-h100-80gb-hbm3-at-500w``.
        """
        if device == "cpu":
            return self.machine_class(device)
        used = self._used(count)
        slugs = {gpu.slug for gpu in used}
        if ran_on is not None:
            named = [gpu for gpu in used if _is_named(gpu.slug, ran_on)]
            if count == 1 or not named:
                used = named or [gpu for gpu in self._all() if _is_named(gpu.slug, ran_on)]
                slugs = {gpu.slug for gpu in used} or {_slug(_plain_name(ran_on))}
        facts = [self.gpus[gpu.number].facts for gpu in used or self._all()]
        limits = {limit for gpu_facts in facts if (limit := _lowered(gpu_facts)) is not None}
        return self._class_of(sorted(slugs)) + "".join(f"-at-{w:.0f}w" for w in sorted(limits))

    def _used(self, count: int | None) -> list[SeenGpu]:
        return list(self.seen[:count]) or self._all()

    def _all(self) -> list[SeenGpu]:
        return [SeenGpu(number=i, slug=_gpu_slug(gpu)) for i, gpu in enumerate(self.gpus)]

    def _class_of(self, slugs: list[str]) -> str:
        boards = Counter(_gpu_slug(gpu) for gpu in self.gpus)
        for gpu in self.gpus:
            boards[_gpu_slug(gpu)] = max(boards[_gpu_slug(gpu)], gpu.on_bus)
        numbers = {slug: boards[slug] or boards[_board(slug, boards)] or 1 for slug in slugs}
        return "+".join(f"{numbers[slug]}x-{slug}" for slug in slugs) or "0x-gpu"


def detect() -> Devices:
    """Return this host's devices; runs ``nvidia-smi`` where there is one, else asks NVML."""
    gpus, problem = _nvidia()
    cpu_name, cpu_has_bf16 = _cpu()
    return Devices(
        gpus=gpus,
        visible_gpus=0 if problem else _visible(len(gpus)),
        gpu_problem=problem,
        cores=os.cpu_count() or 1,
        visible_cores=visible_cores(),
        cpu_name=cpu_name,
        cpu_has_bf16=cpu_has_bf16,
        seen=_seen_gpus(gpus),
    )


def _lowered(facts: GpuFacts | None) -> float | None:
    """Return the limit on a GPU's power in watts where it is not the model's own."""
    if facts is None or facts.power_limit_w is None or facts.power_default_w is None:
        return None
    lowered_by_w = abs(facts.power_default_w - facts.power_limit_w)
    # What the driver enforces wanders by less
    return facts.power_limit_w if lowered_by_w >= _OTHER_LIMIT_W else None


def _board(slug: str, boards: Counter[str]) -> str:
    """Return the slug of the board of a slice; empty if there is none."""
    return next((board for board in boards if slug.startswith(f"{board}-mig-")), "")


def _is_named(slug: str, name: str) -> bool:
    """Return whether a slug is that of a GPU's name: with the memory, where the name lacks it."""
    return re.fullmatch(re.escape(_slug(_plain_name(name))) + r"(-\d+gb)?", slug) is not None


def _seen_gpus(gpus: tuple[Gpu, ...]) -> tuple[SeenGpu, ...]:
    """Return the GPUs that ranks see; empty if that is unknown."""
    # CUDA numbers the fastest first, whatever the driver does.
    numbers = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
    is_sorted = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if len({gpu.name for gpu in gpus}) > 1 and not is_sorted and any(map(str.isdigit, numbers)):
        return ()
    units = [
        GpuProcesses(index=i, uuid=gpu.facts.uuid if gpu.facts else "", memory_by_process=None)
        for i, gpu in enumerate(gpus)
    ]
    slugs = [_gpu_slug(gpu) for gpu in gpus]
    for i, gpu in enumerate(gpus):
        for mig_slice in gpu.facts.slices if gpu.facts else ():
            units.append(GpuProcesses(index=i, uuid=mig_slice.uuid, memory_by_process=None))
            slugs.append(_slug(_plain_name(mig_slice.name)))
    places = gpus_of(len(gpus) + len(units), units, [gpu.name for gpu in gpus], os.environ)
    if isinstance(places, str):
        return ()
    return tuple(SeenGpu(number=units[place].index, slug=slugs[place]) for place in places)


def visible_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _nvidia() -> tuple[tuple[Gpu, ...], str]:
    binary = shutil.which("nvidia-smi")
    if binary is None:
        present = _nvidia_present()
        driver = open_nvml() if present else ""
        if isinstance(driver, Nvml) and (facts := driver.facts()):
            return tuple(map(_gpu_of_driver, facts)), ""
        return (), (
            f"{present}, but there is no nvidia-smi, and NVML does not answer: no driver is "
            f"installed, or this container lacks its part (driver capability utility); {driver}"
            if present
            else ""
        )
    printed = _ask_smi(binary, f"{_QUERY},{_CAPABILITY}")
    if _CAPABILITY in printed.problem:  # drivers before R510 do not know it
        printed = _ask_smi(binary, _QUERY)
        printed = printed._replace(lines=[f"{line}, [N/A]" for line in printed.lines])
    if printed.problem:
        return (), printed.problem
    try:
        gpus = tuple(_gpu(line) for line in printed.lines)
    except ValueError:
        return (), f"nvidia-smi printed a line that cannot be read: {printed.lines[0][:200]!r}"
    return _with_facts(gpus), ""


#: For an answer of nvidia-smi: without its persistence daemon it first initialises the GPUs.
_ANSWER_S: Final = 30.0


class _Printed(NamedTuple):
    lines: list[str]
    #: Why there are none.
    problem: str = ""


def _ask_smi(binary: str, query: str) -> _Printed:
    command = [binary, f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return _Printed([], f"nvidia-smi does not answer: {error}")
    try:
        out, err = process.communicate(timeout=_ANSWER_S)
    except subprocess.TimeoutExpired:
        _leave(process)
        return _Printed([], f"nvidia-smi does not answer: it took more than {_ANSWER_S:g} s")
    if process.returncode != 0:
        output = (out + err).strip().splitlines() or ["no output"]
        return _Printed([], f"nvidia-smi ended with exit code {process.returncode}: {output[0]}")
    return _Printed([line for line in out.splitlines() if line.strip()])


#: Processes that were killed, and that a driver which hangs may keep: nobody waits for them.
_LEFT: Final[list[subprocess.Popen[str]]] = []


def _leave(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    _LEFT.append(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _with_facts(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the GPUs with what nvidia-ml-py says of them, where it says it of these."""
    driver = open_nvml() if gpus else ""
    facts = driver.facts() if isinstance(driver, Nvml) else []
    if [gpu_facts.name for gpu_facts in facts] != [gpu.name for gpu in gpus]:
        # The bus alone says as much of GPUs of one model, so that the machine has one class
        # whether nvidia-ml-py is installed or not
        is_one_model = len({gpu.name for gpu in gpus}) == 1
        return tuple(replace(gpu, on_bus=_on_bus(None)) for gpu in gpus) if is_one_model else gpus
    return tuple(
        replace(gpu, facts=gpu_facts, on_bus=_on_bus(gpu_facts.pci_device))
        for gpu, gpu_facts in zip(gpus, facts, strict=True)
    )


def _gpu_of_driver(facts: GpuFacts) -> Gpu:
    return Gpu(
        name=facts.name,
        memory_mib=facts.memory_mib,
        driver=facts.driver,
        compute_capability=facts.compute_capability,
        on_bus=_on_bus(facts.pci_device),
        facts=facts,
    )


def _on_bus(pci_device: str | None) -> int:
    """Return how many NVIDIA GPUs with this number the host has; containers see its bus too.

    Without a number, those of the host if all have one; else 0, as it is not known.
    """
    boards = Counter(number for _, number in _boards())
    if pci_device is not None:
        return boards[pci_device]
    return boards.total() if len(boards) == 1 else 0


def _boards() -> list[tuple[str, str]]:
    """Return the address and the device number of each NVIDIA GPU on the bus."""
    found = []
    for device in sorted(_PCI.glob("*")):
        try:
            vendor, kind, number = (
                (device / name).read_text(encoding="ascii").strip()
                for name in ("vendor", "class", "device")
            )
        except OSError:
            continue  # it was removed while we looked
        if vendor == _NVIDIA and kind[:6] in _DISPLAY:
            found.append((device.name, number.removeprefix("0x")))
    return found


def _gpu(line: str) -> Gpu:
    name, memory, driver, capability = (part.strip() for part in line.rsplit(",", 3))
    return Gpu(
        name=name,
        memory_mib=int(float(memory)) if memory[:1].isdigit() else 0,
        driver=driver,
        compute_capability=float(capability) if capability[:1].isdigit() else None,
    )


def _nvidia_present() -> str:
    """Return a phrase that names NVIDIA devices on the bus; empty if there are none."""
    found = [address for address, _ in _boards()]
    found += [path.name for path in Path("/dev").glob("nvidia[0-9]*")] if not found else []
    return f"NVIDIA devices are present ({', '.join(sorted(found))})" if found else ""


def _visible(count: int) -> int:
    """Return how many of ``count`` GPUs CUDA_VISIBLE_DEVICES leaves.

    As CUDA reads it: the first entry that names no GPU ends the list.
    """
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return count
    visible = 0
    for entry in value.split(","):
        if entry.strip().isdigit() and int(entry) >= count:
            break
        if not re.fullmatch(r"\d+|(GPU|MIG)-\S+", entry.strip()):
            break
        visible += 1
    return visible


def _gpu_slug(gpu: Gpu) -> str:
    name = _plain_name(gpu.name)
    if not re.search(r"\d+\s*gb", name) and gpu.memory_mib:
        name += f" {round(gpu.memory_mib / 1024)}gb"
    return _slug(name)


def _plain_name(name: str) -> str:
    return re.sub(r"\b(nvidia|tesla|geforce|quadro)\b", " ", name.lower())


def _cpu_slug(name: str) -> str:
    name = re.sub(r"\((r|tm)\)|@.*$|\b\d+-core\b|\b(cpu|processor)\b", " ", name.lower())
    return _slug(name) or "cpu"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


def _cpu() -> tuple[str, bool | None]:
    """Return the name of the CPU, and whether it has instructions for bfloat16."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        feature = _sysctl("hw.optional.arm.FEAT_BF16")
        name = _sysctl("machdep.cpu.brand_string") or os.uname().machine
        return name, {"1": True, "0": False}.get(feature)
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = match.group(1).strip() if match else os.uname().machine
    listed = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return name, None if listed is None else not _BF16.isdisjoint(listed.group(1).split())


def _sysctl(name: str) -> str:
    """Return a value of macOS; empty where it has none of that name."""
    done = subprocess.run(
        ["sysctl", "-n", name], capture_output=True, text=True, errors="replace", check=False
    )
    return done.stdout.strip()
