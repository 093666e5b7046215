"""The launcher interface: the target of a launch, ``Launcher``, and the command of one rank."""

from __future__ import annotations

import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from pytest_dlperf.core.arm import Reported, Tree
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.place import Host, NodePart
from pytest_dlperf.core.wire import RankArguments
from pytest_dlperf.core.wire_profile import ProfiledSteps
from pytest_dlperf.launch.remote.sent_to_hosts import with_travelling
from pytest_dlperf.launch.remote.transport import Transport

#: Keeps a user's variable from choosing torchrun's rendezvous ``--standalone``: that unpickles
#: what anybody who reaches its port has written there.
NOT_STANDALONE: Final = {"PET_STANDALONE": "0"}
#: Words of a program that stand for the interpreter of the ranks.
_PYTHON: Final = frozenset({"python", "python3"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where and how ranks run: interpreter, path, threads, hosts, and what an arm changes."""

    python: str
    #: Put before the target's own path: the plugin's home, the test's folder, those of pytest's
    #: ini ``pythonpath``, the rootdir.
    python_path: tuple[str, ...]
    threads_per_rank: int
    #: Where a user's own program starts: the folder of its test.
    folder: str = ""
    inject: float = 0.0
    #: Whether several ranks sample facts about scaling, after the window.
    scaling: bool = True
    #: Whether its runs take turns with those of the other arm.
    turns: bool = False
    #: Steps after the window that its ranks profile, where it is a program's; such a run is never
    #: judged. None: it profiles nothing.
    profile: ProfiledSteps | None = None
    #: Folder of real data; as the ranks see it.
    data: str | None = None
    #: Put before the launcher's command; behind it there may be other files and programs.
    prefix: tuple[str, ...] = ()
    #: This node's part of a layout of several, where that is started by hand.
    node_part: NodePart | None = None
    #: Folder of the case's runs in which all nodes of a training store their records.
    shared_records: Path | None = None
    #: What an arm of an A/B changes: the tree that replaces the repository's, a folder of
    #: packages, and variables of the ranks.
    tree: Tree | None = None
    overlay: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Whether each launch has an environment of another length, as those of arms do.
    padded: bool = False
    #: How torchrun's nodes meet: ``static`` or ``c10d``.
    rendezvous: str = "static"
    #: The hosts of a launch over channels, and how they are reached; none for this host alone.
    hosts: tuple[Host, ...] = ()
    transport: Transport | None = None
    #: Variables of the user's environment for other hosts; no command holds their values.
    travelling: Mapping[str, str] = field(default_factory=dict)
    #: This package's copy, which every node has.
    package_folder: Path = Path()
    #: What the ranks report of their imports.
    reported: Reported = field(default_factory=Reported)

    def records(self, workdir: Path) -> Path:
        """Return the folder of the ranks' records in the run of ``workdir``."""
        return self.shared_records / workdir.name if self.shared_records else workdir


class Launcher(ABC):
    """Turns a case into a command. Starts nothing."""

    #: What installs the program of the launcher's name; empty where there is no such program.
    installed_by: ClassVar[str] = ""
    #: Whether it is started once, on the first of several nodes; else once on each.
    starts_all_nodes: ClassVar[bool] = False
    #: Name of the launcher's log folder, if it must not outlive the run; else empty.
    private_logs: ClassVar[str] = ""
    #: Glob of single ranks' logs in the run's folder; else empty.
    rank_logs: ClassVar[str] = ""
    #: Variables in which the launcher gives a rank its number, its number on the node, the count.
    place_variables: ClassVar[tuple[str, str, str]] = ("RANK", "LOCAL_RANK", "WORLD_SIZE")

    @abstractmethod
    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command that runs the worker on every rank of ``case``."""

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return what the launcher needs in the environment; nothing unless it says otherwise."""
        return {}


def program_command(case: Case, target: Target) -> tuple[str, ...]:
    """Return the command of a user's program; a bare ``python`` is the target's interpreter."""
    further = target.profile.in_all if target.profile else 0
    first, *rest = case.command_line(further_iterations=further)
    return (target.python if first in _PYTHON else first, *rest)


def brings_own_interpreter(case: Case) -> bool:
    """Return whether ``case`` starts without a framework of this environment."""
    return (
        bool(case.command)
        and case.command[0] not in _PYTHON
        and (case.launcher == "none" or case.ranks == 1)
    )


def as_env(case: Case, target: Target) -> tuple[str, ...]:
    """Return what goes before a rank's command for torch, which reads its place as ``env://``.

    The variables of MPI and Slurm are translated to those.
    """
    if case.framework != "torch":
        return ()
    return (target.python, "-m", "pytest_dlperf.worker.from_mpi")


def rank_command(
    case: Case, target: Target, workdir: Path, place_variables: tuple[str, str, str]
) -> tuple[str, ...]:
    """Return the command of one rank, which reads its place from ``place_variables``."""
    if case.command:
        command = program_command(case, target)
        if target.profile is not None and target.profile.unmarked_s is not None:
            command = (
                target.python, "-m", "pytest_dlperf.worker.sampled_program",
                f"--records={target.records(workdir)}", f"--rank-from={place_variables[0]}",
                f"--step-s={target.profile.unmarked_s:g}", "--", *command,
            )  # fmt: skip
        return with_travelling(target, workdir, command)
    arguments = rank_arguments(case, target, workdir, place_variables)
    return with_travelling(
        target, workdir, (target.python, "-m", "pytest_dlperf.worker", *arguments.flags())
    )


def rank_arguments(
    case: Case, target: Target, workdir: Path, place_variables: tuple[str, str, str]
) -> RankArguments:
    """Return the worker's arguments for ``case``, which has a workload."""
    return RankArguments(
        framework=case.framework,
        workload=case.workload,
        precision=case.precision,
        device=case.layout.device,
        size=case.size,
        # On data that change with each iteration 150 of them need not show the loss fall.
        loss=case.loss if target.data is None else "finite",
        batch_size_per_device=case.batch_size_per_device,
        world_size=case.world_size,
        iterations=case.protocol.iterations,
        warmup=case.protocol.warmup,
        warmup_s=float(case.protocol.warmup_s),
        checked_iterations=case.protocol.lengthened_from,
        threads_per_rank=target.threads_per_rank,
        collective_timeout_s=collective_timeout_s(case),
        seed=1,
        records=str(target.records(workdir)),
        place_from=place_variables,
        work=case.replica_work,
        parallel=case.parallel,
        devices_per_process=case.devices_of_process,
        uncounted_unit=case.unit if case.replica_work is None else "",
        options=dict(case.options),
        data=target.data,
        scaling=target.scaling and case.world_size > 1,
        inject=target.inject,
        turns=target.turns,
        profile=target.profile is not None,
    )


def collective_timeout_s(case: Case) -> float:
    """Return how long a rank waits for the others, in seconds.

    Well below the case's own timeout, so that a rank that waits in vain can report it before it
    is killed; at most five minutes, where frameworks wait half an hour.
    """
    return min(300.0, max(5.0, case.protocol.timeout_s / 2))


def join_timeout_s(case: Case, part: NodePart) -> float:
    """Return how long this node waits for the others before a run begins, in seconds.

    Node 0 first measures one device, as often as it measures the case.
    """
    runs = 0 if part.node_rank == 0 else case.protocol.runs
    return case.protocol.timeout_s * (1 + runs)


def behind(
    prefix: tuple[str, ...], argv: tuple[str, ...], env: Mapping[str, str], *, keep: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command and the environment of ``argv`` started behind ``prefix``.

    The environment is set in the command, by ``env``, since a container starts with its image's
    own. The variable ``keep`` is also set for the prefix itself, to find its processes again.
    """
    if not prefix:
        return argv, dict(env)
    assignments = (f"{name}={value}" for name, value in sorted(env.items()))
    return (*prefix, "env", *assignments, *argv), {keep: env[keep]}


def program_beside(target: Target, name: str) -> str:
    """Return the program of the target's environment, else on PATH; its name behind a prefix."""
    if target.prefix:
        return name  # the folder of programs behind a prefix is not visible from here
    return find_program(target.python, name) or name


def free_port() -> int:
    """Return a TCP port of the loopback address on which nothing listens now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def find_program(python: str, name: str) -> str | None:
    """Return the program in the folder of ``python``, else on PATH; None if it is in neither."""
    same_folder = Path(python).with_name(name)
    return str(same_folder) if same_folder.exists() else shutil.which(name)
