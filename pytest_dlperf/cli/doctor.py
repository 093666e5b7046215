"""``dlperf doctor``: devices, frameworks, launchers, locks, and what each case lacks."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

from pytest_dlperf.cases.possible import (
    check_version,
    framework_version,
    legacy_keras,
)
from pytest_dlperf.cli.advice import in_words_of
from pytest_dlperf.cli.parser import add_json
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.cli.versions import Versions, installed_versions, versions_in_words
from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.case import GPU_PRECISIONS
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.place import Host
from pytest_dlperf.flow.nodes import Asked, ask_nodes, clocks_apart, too_small, unlike
from pytest_dlperf.launch.base import find_program
from pytest_dlperf.launch.process.lease import lease_holder
from pytest_dlperf.launch.remote.nodes import keep
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package
from pytest_dlperf.launch.remote.transport import named_hosts, transport_of
from pytest_dlperf.measure.devices import detect
from pytest_dlperf.measure.nvml import open_nvml


class Classes(TypedDict):
    """The machine classes of cases on either device."""

    cpu: str
    gpu: str | None


class Cores(TypedDict):
    """Cores of this host, and those that this process may use."""

    host: int
    visible: int


class LockedMemory(TypedDict):
    """The limit of locked memory; ``bytes`` is None where there is none."""

    bytes: int | None
    unlimited: bool


class Examined(TypedDict):
    """What is here, as ``--json`` prints it; ``problems`` is empty if nothing is wrong."""

    format: int
    versions: Versions
    machine_class: Classes
    cores: Cores
    gpus: list[str]
    visible_gpus: int
    shared_memory_bytes: int | None
    locked_memory: LockedMemory
    #: Versions, None of what is not installed.
    frameworks: dict[str, str | None]
    #: Paths, None of what is not found.
    programs: dict[str, str | None]
    runtime_folder: str
    lease_holder: str | None
    missing: list[str]
    problems: list[str]


class OnHosts(TypedDict):
    """What each of ``--hosts`` has, a ``TargetReport`` and its clock, and what is wrong there."""

    hosts: dict[str, dict[str, Any]]
    hosts_problems: list[str]


class Report(Examined, OnHosts):
    """What ``--json`` prints with ``--hosts``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_json(parser)
    parser.add_argument("--hosts", metavar="n1:8,n2:8|FILE", help="look at these hosts as well")
    parser.add_argument("--ssh", metavar="COMMAND", help="ssh with options, to reach them (ssh)")
    parser.add_argument(
        "--python", default=sys.executable, metavar="PATH", help="Python of these hosts (this one)"
    )
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    here, on_hosts = examine(), None
    if arguments.hosts:
        on_hosts = examine_hosts(arguments.hosts, ssh=arguments.ssh, python=arguments.python)
        sentences = [in_words_of(arguments, problem) for problem in on_hosts["hosts_problems"]]
        on_hosts["hosts_problems"] = sentences
        here["problems"] += sentences
    if arguments.json:
        say_json(here if on_hosts is None else Report(**here, **on_hosts))
    else:
        say(render(here, on_hosts))
    return 1 if here["problems"] else 0


def examine_hosts(text: str, *, ssh: str | None, python: str) -> OnHosts:
    """Return what each host has, and what is wrong with them.

    Raises ``UsageError`` for what names no hosts.
    """
    hosts = named_hosts(text, Path())
    transport = transport_of(ssh=ssh, python=python, slurm_job="")
    folder = Path(tempfile.mkdtemp(prefix="dlperf-doctor-"))
    answers: dict[str, Asked] = {}
    problems: list[str] = []
    try:
        package = folder / "package"
        copy_package(package)
        for host in hosts:
            try:
                with keep(
                    [transport.reach(host.name)],
                    "doctor",
                    package_folder=package,
                ):
                    answers |= ask_nodes([host], transport, package_folder=package)
            except CaseError as error:
                problems.append(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "hosts": {
            name: {**encode(answer.report), "clock_ahead_s": answer.clock_ahead_s}
            for name, answer in answers.items()
        },
        "hosts_problems": [*problems, *_disagreements(hosts, answers)],
    }


def _disagreements(hosts: tuple[Host, ...], answers: dict[str, Asked]) -> list[str]:
    reached = [host for host in hosts if host.name in answers]
    if not reached:
        return []
    first = reached[0]
    sentences = []
    for host in reached:
        report = answers[host.name].report
        kind = "gpu" if report.devices.gpus else "cpu"
        sentences += [
            unlike(first.name, answers[first.name].report, host.name, report),
            too_small(host, report.devices, kind, host.devices),
        ]
    sentences.append(
        clocks_apart({name: answer.clock_ahead_s for name, answer in answers.items()})
    )
    return [sentence for sentence in sentences if sentence]


def _lines_of_hosts(on_hosts: OnHosts) -> list[str]:
    lines = []
    for name, host in on_hosts["hosts"].items():
        frameworks = ", ".join(f"{k} {v}" for k, v in host["installed"]["frameworks"].items())
        devices = host["devices"]
        lines.append(
            f"host            {name}: Python {host['python']}, {frameworks or 'no framework'}; "
            f"{devices['visible_gpus']} GPUs, {devices['visible_cores']} cores; clock "
            f"{host['clock_ahead_s']:+.1f} s"
        )
    return lines


# Shared memory and locked memory that a process may use here, and what fails for want of them.
#
# A container starts with 64 MiB of shared memory and few locked pages, whatever its host has;
# NCCL's manual and the source reports give it ``--shm-size=1g --ulimit memlock=-1``.

_SHARED_MEMORY: Final = Path("/dev/shm")
_ENOUGH_SHARED_BYTES: Final = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLimits:
    """Sizes in bytes; None where the system does not say."""

    shared_bytes: int | None
    #: The soft limit of locked memory.
    locked_bytes: int | None
    locked_unlimited: bool

    def missing(self, *, gpus: int) -> list[str]:
        """Return a sentence for each limit that cases would run into."""
        lines = []
        if self.shared_bytes is not None and self.shared_bytes < _ENOUGH_SHARED_BYTES:
            several = "layouts of several GPUs on a node (NCCL), and " if gpus > 1 else ""
            lines.append(
                f"shared memory ({_SHARED_MEMORY}) has {size_text(self.shared_bytes)}: {several}"
                "cases whose data workers hand batches over in it, fail with a bus error or "
                "'no space left'; give a container --shm-size=1g or --ipc=host"
            )
        if gpus and self.locked_bytes is not None and not self.locked_unlimited:
            lines.append(
                f"locked memory (memlock) is limited to {size_text(self.locked_bytes)}: layouts "
                "of several nodes over InfiniBand cannot register their buffers; give a "
                "container --ulimit memlock=-1, elsewhere raise it in limits.conf"
            )
        return lines


def memory_limits() -> MemoryLimits:
    """Return this process's limits; what it starts inherits them."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = limit == resource.RLIM_INFINITY
    return MemoryLimits(
        shared_bytes=_size_of(_SHARED_MEMORY),
        locked_bytes=None if unlimited else limit,
        locked_unlimited=unlimited,
    )


def _size_of(folder: Path) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None  # no such folder: macOS
    return status.f_frsize * status.f_blocks


def size_text(size_bytes: int) -> str:
    """Return a size for people: ``64 MiB``, ``1.5 GiB``."""
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.3g} GiB"
    if size_bytes >= 2**20:
        return f"{size_bytes / 2**20:.3g} MiB"
    return f"{size_bytes / 2**10:.3g} KiB"


#: Programs that start ranks or jobs, and what needs them.
_PROGRAMS = {
    "torchrun": "torch cases of more than one rank",
    "mpirun": "jobs over MPI",
    "horovodrun": "tensorflow cases with Horovod",
    "sbatch": "jobs under Slurm",
    "nvidia-smi": "GPU cases",
}


def examine() -> Examined:
    """Return what is here."""
    devices = detect()
    problems = []
    if devices.gpu_problem:
        problems.append(f"a GPU is present but unusable: {devices.gpu_problem}")
    versions = {name: framework_version(name) for name in FRAMEWORKS}
    limits = memory_limits()
    if not any(versions.values()):
        problems.append("no framework is installed; pip install 'pytest-dlperf[torch]' brings one")
    return {
        "format": 1,
        "versions": installed_versions(),
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
    nvml = open_nvml() if gpus else None
    if not isinstance(nvml, str):
        return []
    return [f"GPUs are not watched while ranks run (other processes, clocks, throttling): {nvml}"]


def render(examined: Examined, on_hosts: OnHosts | None = None) -> str:
    """Return the text of what was found here, and on hosts that were asked for."""
    cores, classes = examined["cores"], examined["machine_class"]
    gpus = ", ".join(examined["gpus"]) or "none"
    lines = [
        f"versions        {versions_in_words(examined['versions'])}",
        f"machine class   {classes['cpu']} (CPU cases)",
        f"                {classes['gpu'] or 'no GPU'} (GPU cases)",
        f"cores           {cores['host']} on the host, {cores['visible']} usable here",
        f"GPUs            {gpus}; {examined['visible_gpus']} usable here",
        f"shared memory   {_size(examined['shared_memory_bytes'])}",
        f"locked memory   {_locked(examined['locked_memory'])}",
    ]
    for name, version in examined["frameworks"].items():
        lines.append(f"framework       {name} {version or 'is not installed'}")
    for name, path in examined["programs"].items():
        lines.append(f"program         {name}: {path or f'none (needed for {_PROGRAMS[name]})'}")
    lines.append(f"locks           in {examined['runtime_folder']}")
    lines.append(f"host lease      {examined['lease_holder'] or 'free'}")
    lines += [] if on_hosts is None else _lines_of_hosts(on_hosts)
    lines += [f"missing         {line}" for line in examined["missing"]]
    lines += [f"PROBLEM         {line}" for line in examined["problems"]]
    return "\n".join(lines)


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else size_text(size_bytes)


def _locked(limit: LockedMemory) -> str:
    return "unlimited" if limit["unlimited"] else f"at most {_size(limit['bytes'])} (memlock)"
