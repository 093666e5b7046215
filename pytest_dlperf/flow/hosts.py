"""Where a session measures: this host or its nodes, the target of a case, its conditions."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_dlperf.cases.possible import check_version
from pytest_dlperf.cases.selection import Machine
from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import Case, OptionValue
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.measurement import Conditions, Environment
from pytest_dlperf.core.place import Host, NodePart, Place
from pytest_dlperf.core.secret_texts import masked, masked_values, secrets_of
from pytest_dlperf.core.wire_records import ProbeAnswer, RunFacts
from pytest_dlperf.flow.holding import GpuUse, hold_host, hold_hosts
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.launchers import launcher_name
from pytest_dlperf.launch.plan import SharedFolder, apply_arm, asked_threads
from pytest_dlperf.launch.probe import Probes
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.measure.environment import collect, with_target


def conditions_of(
    case: Case, facts: RunFacts, target: Target, *, hardware: str, host_sharing: bool
) -> Conditions:
    """Return the conditions of runs of ``case`` in ``target`` whose ranks reported ``facts``."""
    model = facts.get("model", {})
    flops = model.get("flops_by_dtype", {})
    dtype = max(flops, key=lambda name: flops[name]) if flops else "unknown"
    # Only the command that is run has its secrets: another key is no other condition
    secrets = secrets_of(os.environ, [*case.command_line(), *target.prefix])
    options: dict[str, OptionValue] = masked_values(dict(case.options), secrets)
    if case.command:
        options["command"] = shlex.join(masked(word, secrets) for word in case.command_line())
    # A program's marks may say another work than the marker, as for batches that are packed
    reported_work, split = facts.get("work"), case.parallelism.split
    share = split / case.devices_of_process
    if reported_work is not None and share != 1:
        reported_work = round(reported_work * share, 6)  # of one replica, as the marker's is
    if case.devices_of_process > 1:
        options["devices_per_process"] = case.devices_of_process
    if case.protocol.warmup_s:
        # A device that is warmer may be slower
        options["warmup_s"] = float(case.protocol.warmup_s)
    work = case.work if case.command else reported_work
    if work is not None and work != case.batch_size_per_device:
        options["work"] = int(work) if float(work).is_integer() else work
    timing: str | None = facts.get("framework", {}).get("timing")
    if case.layout.device == "gpu" and timing == "host clock":
        # Steps that wait for each other are slower than those that queue.
        options["timing"] = timing
    read = facts.get("data", {})
    if "workers" in read:
        options["data_workers"] = read["workers"]
    if "decoder" in read:
        options["decoder"] = read["decoder"].partition(" ")[0]
    return Conditions(
        window=case.protocol.window,
        launcher=launcher_name(case),
        world_size=case.world_size,
        batch_size_per_device=case.batch_size_per_device,
        unit=facts.get("unit", case.unit),
        dtype=f"declared {case.precision}" if case.command else dtype,
        data=read.get("kind", "own" if case.command else "synthetic"),
        parameter_count=model.get("parameter_count"),
        input_shapes=tuple(tuple(shape) for shape in model.get("input_shapes") or ()),
        options=options,
        threads_per_rank=target.threads_per_rank,
        host_sharing=host_sharing,
        hardware=hardware,
        version=case.version,
    )


def check_probed(case: Case, answer: ProbeAnswer, where: str) -> None:
    """Raise ``NotRunError`` or ``CaseError`` if the target lacks what ``case`` needs.

    ``answer`` is that of a probe; ``where`` names the target, for people.
    """
    version = answer["framework_version"]
    if version is None:
        raise NotRunError(f"{case.framework} is not installed {where} ({answer['executable']})")
    if not case.command:
        keras_2 = answer.get("keras", "3").startswith("2")
        check_version(case.framework, version, where=where, keras_2=keras_2)
    needed = case.layout.devices_per_node
    if case.layout.device == "gpu" and answer["gpus"] < needed:
        raise CaseError(
            f"{case.framework} {version} {where} sees {answer['gpus']} GPUs, "
            f"{case.layout} needs {needed}",
            remedy="a container is given them by --gpus all, and a build without CUDA sees none",
            subject=case.id,
        )


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Devices and nodes of a session, and how ranks start on them."""

    devices: Devices
    #: Where ranks start.
    place: Place
    rootdir: Path
    #: Folder of the session's run folders.
    folder: Path
    #: Folder that the nodes of a case share if each is started by hand.
    shared: Path
    #: Folders that tests import from beside their own, as pytest's ini ``pythonpath`` names them.
    import_folders: tuple[str, ...] = ()
    #: The hosts of the session; None for this one alone.
    nodes: Nodes | None = None
    #: The machine class that the user pinned; None for the detected one.
    pinned_machine_class: str | None = None
    share_host: bool = False
    #: What is done if other processes use the GPUs of a case.
    gpu_use: GpuUse = field(default_factory=GpuUse)
    #: The arm of an A/B that runs here; None without an A/B.
    arm: ReadyArm | None = None
    #: Which imports the ranks report.
    reported: Reported = field(default_factory=Reported)
    #: Folder of the copy of this package that both arms of an A/B import; None without an A/B.
    shared_package: Path | None = None

    def with_arm(self, arm: ReadyArm, folder: Path, reported: Reported) -> Hosts:
        """Return this host as the ranks of ``arm`` see it; their runs are kept in ``folder``."""
        place = self.place
        if arm.python:
            place = replace(place, python=arm.python, foreign=True)
        return replace(
            self,
            arm=arm,
            place=place,
            folder=folder,
            reported=reported,
            shared_package=self.package_folder,
        )

    @property
    def copies_package(self) -> bool:
        """Whether ranks import a copy of this package.

        In an A/B both arms do: the other installed packages may be what differs.
        """
        return self.place.foreign or self.arm is not None or self.nodes is not None

    @property
    def package_folder(self) -> Path:
        """Return the folder of this package's copy."""
        return self.shared_package or self.folder / "package"

    @property
    def probes(self) -> Probes:
        """Return the probes of the environment behind a prefix or of another interpreter."""
        return Probes(place=self.place, folder=self.folder, package_folder=self.package_folder)

    @property
    def machine(self) -> Machine:
        """Return the devices that cases can be run on."""
        hosts = self.nodes.hosts if self.nodes else ()
        return machine_of(self.devices, self.place.node_part, hosts)

    def machine_class(self, case: Case) -> str:
        """Return the class whose baselines count for ``case``."""
        layout = case.layout
        return self.pinned_machine_class or self.devices.machine_class(
            layout.device, layout.devices_per_node
        )

    def node_part(self, case: Case) -> NodePart | None:
        """Return this node's part of ``case``; None if the case runs on this host alone."""
        return self.place.node_part if case.layout.nodes > 1 else None

    @contextlib.contextmanager
    def together(self, case: Case) -> Iterator[None]:
        """Report this node's start and failure to the other nodes of ``case``, if it has any."""
        shared = self.shared_folder(case)
        with shared.together() if shared is not None else contextlib.nullcontext():
            yield

    def shared_folder(self, case: Case) -> SharedFolder | None:
        """Return the folder that the nodes of ``case`` share; None if there is one node."""
        part = self.node_part(case)
        if part is None:
            return None
        return SharedFolder(folder=self.shared / case.id, node_rank=part.node_rank)

    def lease(self, case: Case, watcher: Watcher) -> AbstractContextManager[int | None]:
        """Hold the hosts while ``case`` measures; nothing if they are shared."""
        if self.nodes is not None and self.nodes.hosts_of(case):
            copy_package(self.package_folder)
            return hold_hosts(case, self.nodes, watcher, shared=self.share_host)
        if self.share_host:
            return contextlib.nullcontext()
        return hold_host(case, watcher, self.gpu_use)

    def target(self, case: Case, workload_folder: str) -> Target:
        """Return where the ranks of ``case`` run."""
        if case.layout.device == "cpu":
            sharers = case.cpu_ranks_max
        else:
            sharers = max(1, len(self.devices.gpus))
        home = str(
            self.package_folder if self.copies_package else Path(__file__).resolve().parents[2]
        )
        # In the order in which a test finds modules
        folders = [home, workload_folder, *self.import_folders, str(self.rootdir), os.getcwd()]
        path = dict.fromkeys(folders)
        target = Target(
            python=self.place.python,
            folder=workload_folder,
            python_path=tuple(folder for folder in path if folder),
            threads_per_rank=asked_threads(os.environ)
            or max(1, self.devices.visible_cores // sharers),
            prefix=self.place.prefix,
            node_part=self.node_part(case),
            shared_records=self.shared / case.id if self.node_part(case) else None,
            hosts=self.nodes.hosts_of(case) if self.nodes else (),
            transport=self.nodes.transport if self.nodes else None,
            rendezvous=self.nodes.rendezvous if self.nodes else "static",
            travelling=self.nodes.travelling if self.nodes else {},
            package_folder=self.package_folder,
        )
        if self.arm is None:
            # Other hosts may not have the list of modules
            return target if target.hosts else replace(target, reported=self.reported)
        return apply_arm(target, self.arm, reported=self.reported)

    def environment(self, case: Case, facts: RunFacts) -> Environment:
        """Return the environment of ``case``, from its ranks' facts and from a probe, if any."""
        layout = case.layout
        collected = collect(self.devices, layout.device, facts, pinned=self.pinned_machine_class)
        environment = replace(
            collected,
            software=masked_values(dict(collected.software), secrets_of(os.environ)),
            machine_class=self.machine_class(case),
            hardware=self._hardware(case, facts),
        )
        if not self.place.foreign:
            return environment
        probed = self.probes.kept_answer(case.framework)
        return with_target(environment, probed, prefix=self.place.prefix_text)

    def _hardware(self, case: Case, facts: RunFacts) -> str:
        ran_on = facts.get("framework", {}).get("device_name")
        return self.devices.hardware(
            case.layout.device, case.layout.devices_per_node, ran_on=ran_on
        )

    def conditions(self, case: Case, facts: RunFacts, target: Target) -> Conditions:
        """Return the conditions of runs of ``case`` whose ranks reported ``facts``."""
        return conditions_of(
            case,
            facts,
            target,
            hardware=self._hardware(case, facts),
            host_sharing=self.share_host,
        )


def machine_of(devices: Devices, part: NodePart | None, hosts: tuple[Host, ...]) -> Machine:
    """Return the devices that cases can be run on."""
    return Machine(
        gpus=devices.visible_gpus,
        gpu_problem=devices.gpu_problem,
        cores=devices.visible_cores,
        gpus_per_node=len(devices.gpus),
        node_rank=part.node_rank if part else None,
        hosts=hosts,
        cpu_has_bf16=devices.cpu_has_bf16,
    )
