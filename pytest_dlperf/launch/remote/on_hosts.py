"""The commands of a plan on named hosts: one a node, or one that starts all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.core.run import LaunchPlan

#: Where the ranks meet on the first node, unless the launcher finds a port itself.
_DEFAULT_PORT: Final = 29500


def commands_on(
    hosts: Sequence[Host], plan: LaunchPlan, *, fill_port: bool = True
) -> list[tuple[Host, tuple[str, ...]]]:
    """Return each command with the host that it is typed on.

    Without ``fill_port`` the port where ranks meet is left open: the first node names a free one.

    A launcher of one node's ranks is started on every host, with its number; one that starts
    ranks everywhere on the first host alone.
    """
    names = ",".join(f"{host.name}:{host.devices}" for host in hosts)
    found = []
    for rank, host in enumerate(hosts[:1] if plan.starts_all_nodes else hosts):
        values = {
            "${NODE_RANK}": str(rank),
            "${MASTER_ADDR}": hosts[0].name,
            "${HOSTS}": names,
            **(
                {"${MASTER_PORT}": str(_DEFAULT_PORT), "${NETWORK}": "0.0.0.0/0"}
                if fill_port
                else {}
            ),
        }
        words = plan.argv
        for placeholder, value in values.items():
            words = tuple(word.replace(placeholder, value) for word in words)
        found.append((host, words))
    return found
