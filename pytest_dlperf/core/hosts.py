"""The hosts of a training on several nodes, as ``--dlperf-hosts=n1:8,n2:8`` names them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout

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
