"""Finds the GPUs and the CPU of this host, without a framework."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_QUERY: Final = "name,memory.total,driver_version,compute_cap"
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

    def machine_class(self, device: str) -> str:
        """Return the slug of the hardware, such as ``8x-v100-sxm2-32gb``."""
        if device == "gpu":
            counts = Counter(_gpu_slug(gpu) for gpu in self.gpus)
            return "+".join(f"{n}x-{slug}" for slug, n in sorted(counts.items())) or "0x-gpu"
        return f"{self.cores}x-{_cpu_slug(self.cpu_name)}"


def detect() -> Devices:
    """Return this host's devices; runs ``nvidia-smi`` where there is one."""
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
    )


def visible_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _nvidia() -> tuple[tuple[Gpu, ...], str]:
    binary = shutil.which("nvidia-smi")
    if binary is None:
        present = _nvidia_present()
        return (), (
            f"{present}, but there is no nvidia-smi: no driver is installed" if present else ""
        )
    try:
        done = subprocess.run(
            [binary, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"nvidia-smi does not answer: {error}"
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        said_first = said[0] if said else "no output"
        return (), f"nvidia-smi ended with exit code {done.returncode}: {said_first}"
    try:
        return tuple(_gpu(line) for line in done.stdout.splitlines() if line.strip()), ""
    except ValueError:
        return (), f"nvidia-smi printed a line that cannot be read: {done.stdout[:200]!r}"


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
    found = []
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor = (device / "vendor").read_text(encoding="ascii").strip()
            kind = (device / "class").read_text(encoding="ascii").strip()
        except OSError:
            continue  # it was removed while we looked
        if vendor == _NVIDIA and kind[:6] in _DISPLAY:
            found.append(device.name)
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
    name = re.sub(r"\b(nvidia|tesla|geforce|quadro)\b", " ", gpu.name.lower())
    if not re.search(r"\d+\s*gb", name) and gpu.memory_mib:
        name += f" {round(gpu.memory_mib / 1024)}gb"
    return _slug(name)


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
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip()
