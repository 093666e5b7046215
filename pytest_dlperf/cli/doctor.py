"""``dlperf doctor``: devices, frameworks, launchers, locks, and what is missing for what."""

from __future__ import annotations

import sys
from typing import Any

from pytest_dlperf.cases.possible import DISTRIBUTIONS, framework_version, legacy_keras
from pytest_dlperf.cases.versions import check_version
from pytest_dlperf.cli.doctor_hosts import render_hosts
from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.case import GPU_PRECISIONS
from pytest_dlperf.core.errors import NotRunError
from pytest_dlperf.launch.base import find_program
from pytest_dlperf.launch.process.lease import lease_holder
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.memory_limits import memory_limits, size_text
from pytest_dlperf.measure.nvml import open_nvml

#: Programs that start ranks or jobs, and what needs them.
_PROGRAMS = {
    "torchrun": "torch cases of more than one rank",
    "mpirun": "jobs over MPI",
    "horovodrun": "tensorflow cases with Horovod",
    "sbatch": "jobs under Slurm",
    "nvidia-smi": "GPU cases",
}


def examine() -> dict[str, Any]:
    """Return what is here, in plain JSON types; ``problems`` is empty if nothing is wrong."""
    devices = detect()
    problems = []
    if devices.gpu_problem:
        problems.append(f"a GPU is present but unusable: {devices.gpu_problem}")
    versions = {name: framework_version(name) for name in DISTRIBUTIONS}
    limits = memory_limits()
    if not any(versions.values()):
        problems.append("no framework is installed; pip install 'pytest-dlperf[torch]' brings one")
    return {
        "format": 1,
        "machine_class": {
            "cpu": devices.machine_class("cpu"),
            "gpu": devices.machine_class("gpu") if devices.gpus else None,
        },
        "cores": {"host": devices.cores, "visible": devices.visible_cores},
        "gpus": [gpu.name for gpu in devices.gpus],
        "visible_gpus": devices.visible_gpus,
        "shared_memory_bytes": limits.shared_bytes,
        "locked_memory": {"bytes": limits.locked_bytes, "unlimited": limits.locked_unlimited},
        "frameworks": versions,
        "programs": {name: find_program(sys.executable, name) for name in _PROGRAMS},
        "runtime_folder": str(runtime_folder.folder()),
        "lease_holder": lease_holder(),
        "missing": [
            *_missing(versions, has_gpu=devices.visible_gpus > 0),
            *limits.missing(gpus=devices.visible_gpus),
            *_unwatched(devices.visible_gpus),
        ],
        "problems": problems,
    }


def _missing(versions: dict[str, str | None], *, has_gpu: bool) -> list[str]:
    lines = []
    for name, version in versions.items():
        if version is None:
            lines.append(
                f"cases of framework {name} are not-run: pip install 'pytest-dlperf[{name}]'"
            )
            continue
        try:
            check_version(name, version, keras_2=legacy_keras())
        except NotRunError as error:
            lines.append(f"cases of framework {name} are not-run: {error}")
    if not has_gpu:
        lines.append(
            "no usable GPU: cases run on CPU processes at size tiny; those of precision "
            f"{', '.join(GPU_PRECISIONS)} are not-run"
        )
    return lines


def _unwatched(gpus: int) -> list[str]:
    found = open_nvml() if gpus else None
    if not isinstance(found, str):
        return []
    return [f"GPUs are not watched while ranks run (other processes, clocks, throttling): {found}"]


def render(facts: dict[str, Any]) -> str:
    """Return the text of ``examine``'s findings."""
    cores, classes = facts["cores"], facts["machine_class"]
    gpus = ", ".join(facts["gpus"]) or "none"
    lines = [
        f"machine class   {classes['cpu']} (CPU cases)",
        f"                {classes['gpu'] or 'no GPU'} (GPU cases)",
        f"cores           {cores['host']} on the host, {cores['visible']} usable here",
        f"GPUs            {gpus}; {facts['visible_gpus']} usable here",
        f"shared memory   {_size(facts['shared_memory_bytes'])}",
        f"locked memory   {_locked(facts['locked_memory'])}",
    ]
    for name, version in facts["frameworks"].items():
        lines.append(f"framework       {name} {version or 'is not installed'}")
    for name, path in facts["programs"].items():
        lines.append(f"program         {name}: {path or f'none (needed for {_PROGRAMS[name]})'}")
    lines.append(f"locks           in {facts['runtime_folder']}")
    lines.append(f"host lease      {facts['lease_holder'] or 'free'}")
    lines += render_hosts(facts)
    lines += [f"missing         {line}" for line in facts["missing"]]
    lines += [f"PROBLEM         {line}" for line in facts["problems"]]
    return "\n".join(lines)


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else size_text(size_bytes)


def _locked(limit: dict[str, Any]) -> str:
    return "unlimited" if limit["unlimited"] else f"at most {_size(limit['bytes'])} (memlock)"
