"""Build the nodes of a session from its options, where it has several."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.place import Host
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.launch.remote.nodes import keep
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package
from pytest_dlperf.launch.remote.transport import allocated_hosts, is_this_host, transport_of
from pytest_dlperf.measure.devices import Devices, detect
from pytest_dlperf.session.exits import usage_error
from pytest_dlperf.session.settings import Settings


def declared_hosts(settings: Settings) -> tuple[Host, ...]:
    """Return the hosts that are named, else those of the Slurm allocation this process is in.

    None where this session starts nothing by itself. Raises ``pytest.UsageError``.
    """
    if settings.hosts:
        return settings.hosts
    by_others = settings.place.node_part is not None or settings.scheduling is not None
    if settings.runs_nothing or by_others:
        return ()
    try:
        return allocated_hosts()
    except UsageError as error:
        raise usage_error(error) from error


def make_nodes(settings: Settings, hosts: tuple[Host, ...], folder: Path) -> Nodes:
    """Return the nodes of a session whose folder is ``folder``; raises ``pytest.UsageError``."""
    travelling = {name: os.environ[name] for name in settings.travelling if name in os.environ}
    missing = sorted(set(settings.travelling) - set(travelling))
    if missing:
        raise usage_error(f"--dlperf-env names {', '.join(missing)}, not set in this environment")
    return Nodes(
        hosts=hosts,
        transport=transport_of(
            ssh=settings.ssh,
            python=settings.place.python,
            slurm_job="" if settings.hosts else os.environ.get("SLURM_JOB_ID", ""),
        ),
        rendezvous=settings.rendezvous,
        package_folder=folder / "package",
        prefix=settings.place.prefix,
        pinned=settings.machine_class is not None,
        travelling=travelling,
    )


def devices_of(nodes: Nodes | None) -> Devices:
    """Return the devices of the first node, which is asked where it is not this host.

    Raises ``pytest.UsageError`` if it cannot be.
    """
    if nodes is None or is_this_host(nodes.hosts[0].name):
        return detect()
    first = nodes.hosts[:1]
    try:
        copy_package(nodes.package_folder)
        with keep(
            [nodes.transport.reach(first[0].name)],
            "collection",
            package_folder=nodes.package_folder,
        ):
            return nodes.reports(first)[first[0].name].devices
    except DlperfError as error:
        raise usage_error(error) from error
