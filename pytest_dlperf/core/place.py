"""Where and by which interpreter ranks start: prefix, hosts, one node of several, jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.quantity import parse_duration
from pytest_dlperf.core.secret_texts import MASK

#: ``NAME=VALUE`` as a separate word, after ``--env=`` or right after ``-e``.
_ASSIGNMENT: Final = re.compile(
    r"(--[a-z-]*env(?:ironment)?=|-e)?([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.S
)
#: Prefixes of variables that configure a training and are never secret.
_NEVER_SECRET: Final = ("CUDA_", "FLAGS_", "KMP_", "MKL_", "OMP_", "TF_XLA_")
#: Prefix of the name of a folder that several nodes share.
SHARED: Final = "nodes-"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePart:
    """The part of a multi-node training that this node starts (``--dlperf-node-rank``)."""

    node_rank: int
    master_addr: str
    master_port: int

    @classmethod
    def parse(cls, node_rank: str | None, master: str | None) -> NodePart | None:
        """Return the part that the two options name, None for neither; raise ``UsageError``."""
        if node_rank is None and master is None:
            return None
        if node_rank is None or master is None:
            raise UsageError(
                "--dlperf-node-rank=R and --dlperf-master=ADDR:PORT belong together: on each "
                "node its own number, on all of them the address of node 0"
            )
        if not node_rank.strip().isdecimal():
            raise UsageError(
                f"--dlperf-node-rank={node_rank}: give this node's number, counted from 0"
            )
        address, _, port = master.rpartition(":")
        if not address or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(
                f"--dlperf-master={master}: give node 0's address and a free port of it, for "
                "instance 10.11.0.2:29500"
            )
        return cls(node_rank=int(node_rank), master_addr=address, master_port=int(port))

    @property
    def name(self) -> str:
        """A name that is the same on all nodes of the training, usable for a folder."""
        return f"{SHARED}{self.master_addr.strip('[]').replace(':', '.')}-{self.master_port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The words before a launcher's command, and the interpreter of the ranks."""

    python: str
    #: The command before the launcher (of a container, numactl ...), with placeholders filled in.
    prefix: tuple[str, ...] = ()
    #: The prefix for people and files: without the values of variables that it sets, and without
    #: this session's folders, so that two can be compared.
    prefix_text: str = ""
    #: Whether the interpreter differs from pytest's, or may differ: only a launch shows it then.
    foreign: bool = False
    node_part: NodePart | None = None

    @classmethod
    def parse(
        cls,
        *,
        prefix: str | None,
        python: str | None,
        own_python: str,
        folders: dict[str, str],
        node_part: NodePart | None = None,
    ) -> Place:
        """Return the place that the options name; raise ``UsageError`` if they are invalid.

        ``folders`` are the placeholders: ``{workdir}`` and ``{rootdir}``.
        """
        try:
            words = shlex.split(prefix or "")
            text = masked(prefix or "")
        except ValueError as error:
            # The prefix is not repeated: it may set secrets, which cannot be recognised here.
            raise UsageError(f"--dlperf-prefix: {error}; quote it as in a shell") from error
        for name, folder in folders.items():
            # Not str.format: a container's options may contain braces
            words = [word.replace(f"{{{name}}}", folder) for word in words]
        chosen = python or ("python3" if words else own_python)
        return cls(
            python=chosen,
            prefix=tuple(words),
            prefix_text=text,
            foreign=bool(words) or chosen != own_python,
            node_part=node_part,
        )

    @property
    def words(self) -> str:
        """Return where ranks start, for people."""
        if self.prefix:
            return f"behind the prefix {self.prefix_text!r} with {self.python}"
        return f"with {self.python}"


def masked(command: str) -> str:
    """Return a command for people, with the values of the variables that it sets masked.

    It is unchanged where it sets none. Raises ``ValueError`` for an unclosed quotation.
    """
    words = shlex.split(command)
    shown = [_masked_word(word) for word in words]
    return command.strip() if shown == [shlex.quote(w) for w in words] else " ".join(shown)


def _masked_word(word: str) -> str:
    match = _ASSIGNMENT.fullmatch(word)
    if match is None or match[2].startswith(_NEVER_SECRET):
        return shlex.quote(word)
    return f"{match[1] or ''}{match[2]}={MASK}"


#: Letters, digits, dots, dashes: a host name or an IPv4 address, and nothing special to a shell.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
#: A line of an MPI hostfile.
_SLOTS: Final = re.compile(r"(\S+)\s+(?:slots|max_slots)=(\d+)(?:\s+max[-_]slots=\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One node, and how many ranks it takes."""

    name: str
    devices: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """How to start a program on a node, from this host."""

    name: str
    #: The words before the program; empty for this host.
    argv: tuple[str, ...] = ()
    #: Whether a shell on the node interprets the program's words, as with ssh.
    shell: bool = False
    #: The interpreter there.
    python: str = "python3"


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts; raise ``UsageError`` if there is none, or one is named twice."""
    return _hosts(part.partition(":")[::2] for part in _parts(text))


def parse_hostfile(text: str) -> tuple[Host, ...]:
    """Return the hosts of a file: one per line, as ``n1:8``, or ``n1 slots=8`` as for MPI.

    Text after a ``#`` is ignored. Raises ``UsageError`` as ``parse_hosts`` does.
    """
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return _hosts(
        (match[1], match[2]) if (match := _SLOTS.fullmatch(line)) else line.partition(":")[::2]
        for line in lines
        if line
    )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _hosts(pairs: Iterable[tuple[str, ...]]) -> tuple[Host, ...]:
    hosts: list[Host] = []
    for name, devices in pairs:
        if not _NAME.fullmatch(name) or not devices.isdecimal() or int(devices) < 1:
            written = f"{name}:{devices}" if devices else name
            raise UsageError(
                f"--dlperf-hosts: {written!r} is not a host with its devices; write n1:8,n2:8, or "
                "name a file with a line n1:8 or n1 slots=8 for each"
            )
        if name in {host.name for host in hosts}:
            raise UsageError(
                f"--dlperf-hosts: {name} is listed twice; give all its devices at once"
            )
        hosts.append(Host(name=name, devices=int(devices)))
    if not hosts:
        raise UsageError("--dlperf-hosts names no host; write n1:8,n2:8")
    return tuple(hosts)


def hosts_of(layout: Layout, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return the first hosts that ``layout`` takes, with the devices that it uses of each.

    Raises ``UsageError`` if there are too few, or one is too small.
    """
    if len(hosts) < layout.nodes:
        raise UsageError(f"{layout} needs {layout.nodes} nodes, and there are {len(hosts)} hosts")
    chosen = hosts[: layout.nodes]
    for host in chosen:
        if host.devices < layout.devices_per_node:
            raise UsageError(
                f"{layout} needs {layout.devices_per_node} devices on each node, {host.name} has "
                f"{host.devices}"
            )
    return tuple(Host(name=h.name, devices=layout.devices_per_node) for h in chosen)


SCHEDULER: Final = "slurm"
#: Value of the option for pytest within a job, which runs its case there and stores nothing.
IN_JOB: Final = "in-job"
#: Options that need a scheduler.
JOB_OPTIONS: Final = ("jobs", "slurm", "queue-timeout")
#: Why an option cannot be combined with jobs.
_CONTRARY: Final = {
    "node-rank": "starts one node's part by hand; a job starts all of them",
    "hosts": "names the hosts, and here the scheduler chooses them",
    "from-logs": "judges logs, and starts nothing",
    "budget": "is the time of cases that run one after the other, and jobs run at once; bound "
    "each by --time in --dlperf-slurm",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduling:
    """The scheduler, and what is asked of it."""

    name: str
    #: Jobs that are in flight at once, at most.
    jobs: int = 4
    #: Further words for sbatch.
    words: tuple[str, ...] = ()
    #: How long a job may wait for its start, in seconds.
    queue_timeout_s: float = 86400.0

    @classmethod
    def parse(cls, get: Callable[[str], Any]) -> Scheduling | None:
        """Return what the options say, None without a scheduler; raise ``UsageError``."""
        name = get("scheduler")
        given = [option for option in JOB_OPTIONS if get(option) is not None]
        if name is None and given:
            raise UsageError(
                f"--dlperf-{given[0]} is for jobs; name their scheduler with --dlperf-scheduler"
            )
        if name is None or name == IN_JOB:
            return None
        if name != SCHEDULER:
            raise UsageError(f"--dlperf-scheduler={name}: known is {SCHEDULER}")
        for option, why in _CONTRARY.items():
            if get(option) is not None:
                raise UsageError(f"--dlperf-scheduler={name} and --dlperf-{option}: that {why}")
        return cls(
            name=name,
            jobs=_jobs(get("jobs")),
            words=_words(get("slurm")),
            queue_timeout_s=parse_duration(
                get("queue-timeout") or "24h", what="--dlperf-queue-timeout"
            ),
        )


def _jobs(text: str | None) -> int:
    if text is None:
        return 4
    if not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(f"--dlperf-jobs={text}: give a whole number, 1 or more")
    return int(text)


def _words(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UsageError(f"--dlperf-slurm={text}: {error}; quote it as in a shell") from error
