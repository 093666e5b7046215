"""The hosts of a training on several nodes, as ``--dlperf-hosts=n1:8,n2:8`` names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_dlperf.core.layout import Layout

#: Letters, digits, dots, dashes: a host name or an IPv4 address, and nothing that a shell reads.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One node, and how many ranks it takes."""

    name: str
    devices: int


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts; raise ``UsageError`` for what names none, or one twice."""
    hosts: list[Host] = []
    for part in text.split(","):
        name, _, devices = part.strip().partition(":")
        if not _NAME.fullmatch(name) or not devices.isdecimal() or int(devices) < 1:
            raise UsageError(
                f"--dlperf-hosts: {part.strip()!r} is no host with its devices; write n1:8,n2:8"
            )
        if name in {host.name for host in hosts}:
            raise UsageError(f"--dlperf-hosts: {name} stands twice; give all its devices at once")
        hosts.append(Host(name=name, devices=int(devices)))
    return tuple(hosts)


def hosts_of(layout: Layout, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return the first hosts that ``layout`` takes, with the devices that it uses of each.

    Raises ``UsageError`` if there are too few, or one is too small.
    """
    if len(hosts) < layout.nodes:
        raise UsageError(f"{layout} needs {layout.nodes} nodes, --dlperf-hosts names {len(hosts)}")
    chosen = hosts[: layout.nodes]
    for host in chosen:
        if host.devices < layout.devices_per_node:
            raise UsageError(
                f"{layout} needs {layout.devices_per_node} devices on each node, {host.name} has "
                f"{host.devices}"
            )
    return tuple(Host(name=h.name, devices=layout.devices_per_node) for h in chosen)
