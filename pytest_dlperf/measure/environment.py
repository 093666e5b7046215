"""Records where a case ran: the machine, the software and the container image."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.packages import PACKAGES, packages_digest
from pytest_dlperf.core.wire_records import ProbeAnswer, RunFacts
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.measure.nvml import INSTALL, GpuFacts, nvml_version


def with_target(environment: Environment, probed: ProbeAnswer, *, prefix: str) -> Environment:
    """Return ``environment`` as it is where ranks start, behind ``prefix``.

    What ranks reported counts before the probe's answer; image and operating system are those of
    the probe, as the pytest side sees only its own.
    """
    image: str | None = probed.get("image")
    of_framework: dict[str, str | int | None] = {
        str(probed.get("framework")): probed.get("framework_version"),
        "python": probed.get("python"),
        "cuda": probed.get("cuda"),
        "cudnn": probed.get("cudnn"),
        "nccl": probed.get("nccl"),
    }
    of_place: dict[str, str | None] = {
        "prefix": prefix or None,
        "image": image,
        "os of the ranks": probed.get("os"),
    }
    software = {**_known_texts(of_framework), **environment.software, **_known_texts(of_place)}
    if probed and not image:
        software.pop("image", None)  # that of the pytest side
    return replace(environment, software=software)


def _known_texts(values: Mapping[str, str | int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


#: Variables that hold an image's name or path: the user's own word first, then GitLab's runner,
#: Apptainer and Singularity.
_NAMES: Final = ("DLPERF_IMAGE", "CI_JOB_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
#: NGC's images have variables of product and version, not of their name.
_NGC_VERSION: Final = re.compile(r"NVIDIA_(PYTORCH|TENSORFLOW|PADDLEPADDLE)_VERSION")
#: Written by podman into its containers.
_PODMAN_IMAGE: Final = re.compile(r'^image="([^"]+)"$', re.MULTILINE)


def image_name(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return the image's name; None outside of containers, and where it is unknown.

    Docker gives its containers no name of the image: there a user sets ``DLPERF_IMAGE``.
    """
    for name in _NAMES:
        if environ.get(name):
            return environ[name]
    for name in sorted(environ):
        match = _NGC_VERSION.fullmatch(name)
        if match and environ[name]:
            return f"NGC {match[1].lower()} {environ[name]}"
    match = _PODMAN_IMAGE.search(_read(root / "run/.containerenv"))
    return match[1] if match else None


def container_kind(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return what kind of container this is; None outside, or if that is unknown."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if environ.get("APPTAINER_NAME") or environ.get("SINGULARITY_NAME"):
        return "apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    return environ.get("container") or None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def collect(devices: Devices, device: str, facts: RunFacts, *, pinned: str | None) -> Environment:
    """Return the environment of a run on ``device`` whose ranks reported ``facts``."""
    hardware = devices.machine_class(device)
    framework = facts.get("framework", {})
    start = facts.get("start", {})
    software: dict[str, str | int | None] = {
        framework.get("framework", "framework"): framework.get("framework_version"),
        "python": start.get("python"),
        "cuda": framework.get("cuda"),
        "rocm": framework.get("rocm"),
        "cudnn": _cudnn(framework.get("cudnn")),
        "nccl": framework.get("nccl"),
        "backend": framework.get("backend"),
        "horovod": framework.get("horovod"),
        "timing": framework.get("timing"),
        "tf32 by default": framework.get("tf32_default"),
        "tf32 in force": _tf32(facts),
        "driver": devices.gpus[0].driver if devices.gpus else None,
        "gpu samples": _gpu_samples() if device == "gpu" else None,
        "kernel": platform.release(),
        "image": image_name(os.environ),
        **_settings(facts),
    }
    machine = {
        "os": _os_name(),
        "cpu": f"{devices.cpu_name} * {devices.cores}",
        "cores visible": str(devices.visible_cores),
        "memory": _memory(),
        "gpu": ", ".join(sorted({gpu.name for gpu in devices.gpus}))
        + (f" * {len(devices.gpus)}" if devices.gpus else ""),
        "container": container_kind(os.environ),
        **(_gpu_settings(devices) if device == "gpu" else {}),
    }
    return Environment(
        machine_class=pinned or hardware,
        hardware=hardware,
        node=start.get("node", platform.node()),
        software=_known_texts(software),
        packages=facts.get("settings", {}).get("packages", {}),
        machine={key: value for key, value in machine.items() if value},
    )


def _settings(facts: RunFacts) -> dict[str, str]:
    """Return flags and variables of rank 0 by their names, and the digest of its packages."""
    found = facts.get("settings")
    if found is None:
        return {}
    return {PACKAGES: packages_digest(found["packages"]), **found["flags"], **found["variables"]}


def _gpu_settings(devices: Devices) -> dict[str, str]:
    """Return how the GPUs are set that ranks see; what no GPU reports is absent."""
    numbers = dict.fromkeys(gpu.number for gpu in devices.seen) or range(len(devices.gpus))
    gpus = [facts for i in numbers if (facts := devices.gpus[i].facts) is not None]
    words: dict[str, list[str | None]] = {
        "gpu power limit": [_power(gpu) for gpu in gpus],
        "gpu clocks set": [_clock(gpu.set_clock_mhz) for gpu in gpus],
        "gpu ecc": [_mode_words(gpu.ecc) for gpu in gpus],
        "gpu mig": [_mode_words(gpu.mig) for gpu in gpus],
        "gpu persistence": [_mode_words(gpu.persistence) for gpu in gpus],
        "gpu nvlinks": [None if gpu.nvlinks is None else str(gpu.nvlinks) for gpu in gpus],
        "gpu path to the next": [gpu.path_to_next for gpu in gpus],
        "gpu slices": [", ".join(mig.name for mig in gpu.slices) or None for gpu in gpus],
    }
    return {
        name: " / ".join(dict.fromkeys(word for word in each if word))
        for name, each in words.items()
    }


def _power(gpu: GpuFacts) -> str | None:
    if gpu.power_limit_w is None:
        return None
    default = gpu.power_default_w
    own = "" if default is None or default == gpu.power_limit_w else f" (default {default:.0f} W)"
    return f"{gpu.power_limit_w:.0f} W{own}"


def _clock(mhz: int | None) -> str | None:
    return None if mhz is None else f"{mhz} MHz"


def _mode_words(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _tf32(facts: RunFacts) -> str | None:
    """Return what may use TF32, or why nothing may; None where nobody knows."""
    found = facts.get("arithmetic")
    if found is None or not found["tf32"]:
        return None
    flags = ", ".join(f"{name} {'on' if on else 'off'}" for name, on in found["tf32"].items())
    overrides = [f"{name}={value}" for name, value in found["overrides"].items()]
    return "; ".join([flags, *overrides])


def _cudnn(version: str | int | None) -> str | int | None:
    """Return ``8.0.4`` for the number 8004, and ``9.1.0`` for 90100, as cudnn_version.h has it."""
    if not isinstance(version, int) or version < 1000:
        return version
    major, rest = divmod(version, 10000 if version >= 90000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _gpu_samples() -> str:
    version = nvml_version()
    return f"nvidia-ml-py {version}" if version else f"none: no nvidia-ml-py ({INSTALL})"


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _memory() -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{round(pages * size / 2**30)} GiB"
