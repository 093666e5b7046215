"""How a session reaches its hosts: ssh, srun inside a Slurm allocation, or a local process."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import Host, Reach, parse_hostfile, parse_hosts

#: They follow the user's own options, which win: ssh takes the first value of an option. ssh
#: notices a cut link after 15 s, and never asks for a password.
_SSH_OPTIONS: Final = (
    "-T",
    "-o", "BatchMode=yes",
    "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=3",
)  # fmt: skip
#: For an answer of Slurm's controller.
_SCONTROL_S: Final = 60.0
#: Starts one task on the named node, as a step that overlaps the allocation's other steps.
_SRUN: Final = (
    "srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mem=0",
    "--unbuffered", "--quiet",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Transport:
    """How the hosts of a session are reached, and which interpreter runs there."""

    python: str
    #: ``ssh`` with the user's options.
    ssh: tuple[str, ...] = ("ssh",)
    #: The allocation that hosts are in; empty where they are reached by ssh.
    slurm_job: str = ""

    def reach(self, host: str) -> Reach:
        """Return how ``host`` is reached."""
        if is_this_host(host):
            return Reach(name=host, python=self.python)
        return self.away(host)

    def away(self, host: str) -> Reach:
        """Return how another host reaches ``host``."""
        if self.slurm_job:
            words = (*_SRUN, f"--jobid={self.slurm_job}", f"--nodelist={host}")
            return Reach(name=host, argv=words, python=self.python)
        return Reach(
            name=host, argv=(*self.ssh, *_SSH_OPTIONS, host), shell=True, python=self.python
        )


def transport_of(*, ssh: str | None, python: str, slurm_job: str) -> Transport:
    """Return the transport that ``--dlperf-ssh`` names; raise ``UsageError`` for bad quoting."""
    try:
        words = tuple(shlex.split(ssh or "ssh"))
    except ValueError as error:
        raise UsageError(f"--dlperf-ssh={ssh}: {error}; quote it as in a shell") from error
    return Transport(python=python, ssh=words or ("ssh",), slurm_job=slurm_job)


@cache
def is_this_host(name: str) -> bool:
    """Return whether ``name`` is this host: one of its addresses, or its own name."""
    if name == socket.gethostname():
        return True
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False  # ssh may know names that the resolver does not
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(address)  # only a host's own addresses can be bound
            except OSError:
                continue
            return True
    return False


def allocated_hosts(environment: Mapping[str, str] = os.environ) -> tuple[Host, ...]:
    """Return the hosts of the Slurm allocation of several nodes that this process is in.

    Empty if it is in none. Each takes as many ranks as it has GPUs, else CPUs. Raises
    ``UsageError`` if Slurm cannot name them.
    """
    nodes = environment.get("SLURM_JOB_NODELIST", "")
    if int(environment.get("SLURM_JOB_NUM_NODES", "1")) < 2 or not nodes:
        return ()
    try:
        done = subprocess.run(
            ["scontrol", "show", "hostnames", nodes],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SCONTROL_S,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"this is Slurm's job on {nodes}, and scontrol did not name the hosts within "
            f"{_SCONTROL_S:g} s; name them with --dlperf-hosts"
        ) from error
    except OSError as error:
        raise UsageError(
            f"this is Slurm's job on {nodes}, and there is no scontrol to name the hosts "
            f"({error.strerror}); name them with --dlperf-hosts"
        ) from error
    if done.returncode != 0:
        raise UsageError(f"scontrol cannot name the hosts of {nodes}: {done.stderr.strip()}")
    devices = environment.get("SLURM_GPUS_ON_NODE") or environment.get("SLURM_CPUS_ON_NODE", "1")
    return parse_hosts(",".join(f"{name}:{devices}" for name in done.stdout.split()))


def named_hosts(value: str, here: Path) -> tuple[Host, ...]:
    """Return the hosts of a list, or of the hostfile of that name; raise ``UsageError``."""
    file = here / value
    return (
        parse_hostfile(file.read_text(encoding="utf-8")) if file.is_file() else parse_hosts(value)
    )
