"""The commands of a plan on named hosts: one a node, or one that starts all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.hosts import Host

#: Where the ranks meet on the first node, unless the launcher finds a port itself.
_DEFAULT_PORT: Final = 29500


def commands_on(hosts: Sequence[Host], argv: Sequence[str]) -> list[tuple[Host, tuple[str, ...]]]:
    """Return each command with the host that it is typed on.

    A launcher of one node's ranks is started on every host, with its number; one that starts
    ranks everywhere on the first host alone.
    """
    every_node = any("${NODE_RANK}" in word for word in argv)
    names = ",".join(f"{host.name}:{host.devices}" for host in hosts)
    found = []
    for rank, host in enumerate(hosts if every_node else hosts[:1]):
        values = {
            "${NODE_RANK}": str(rank),
            "${MASTER_ADDR}": hosts[0].name,
            "${MASTER_PORT}": str(_DEFAULT_PORT),
            "${HOSTS}": names,
        }
        words = tuple(argv)
        for placeholder, value in values.items():
            words = tuple(word.replace(placeholder, value) for word in words)
        found.append((host, words))
    return found
