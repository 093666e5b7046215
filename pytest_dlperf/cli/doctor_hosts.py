"""``dlperf doctor --hosts=n1:8,n2:8``: whether hosts are reached, and agree."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.flow.node_agreement import clocks_apart, too_small, unlike
from pytest_dlperf.flow.nodes import ask_nodes
from pytest_dlperf.launch.remote.keepers import keep
from pytest_dlperf.launch.remote.package_copy import copy_package
from pytest_dlperf.launch.remote.transport import ways_of
from pytest_dlperf.session.option_values import named_hosts

if TYPE_CHECKING:
    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.flow.nodes import Asked


def examine_hosts(text: str, *, ssh: str | None, python: str) -> dict[str, Any]:
    """Return what each host has, and what is wrong with them, in plain JSON types.

    Raises ``UsageError`` for what names no hosts.
    """
    hosts = named_hosts(text, Path())
    ways = ways_of(ssh=ssh, python=python, slurm_job="")
    folder = Path(tempfile.mkdtemp(prefix="dlperf-doctor-"))
    found: dict[str, Asked] = {}
    problems: list[str] = []
    try:
        package = folder / "package"
        copy_package(package)
        for host in hosts:
            try:
                with keep(
                    [ways.to(host.name)],
                    "doctor",
                    package_folder=package,
                    leases=False,
                    on_wait=lambda _: None,
                ):
                    found |= ask_nodes([host], ways, package_folder=package)
            except CaseError as error:
                problems.append(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "hosts": {
            name: {**encode(one.report), "clock_ahead_s": one.clock_ahead_s}
            for name, one in found.items()
        },
        "hosts_problems": [*problems, *_disagreements(hosts, found)],
    }


def _disagreements(hosts: tuple[Host, ...], found: dict[str, Asked]) -> list[str]:
    reached = [host for host in hosts if host.name in found]
    if not reached:
        return []
    first = reached[0]
    words = []
    for host in reached:
        report = found[host.name].report
        kind = "gpu" if report.devices.gpus else "cpu"
        words += [
            unlike(first.name, found[first.name].report, host.name, report),
            too_small(host, report.devices, kind, host.devices),
        ]
    words.append(clocks_apart({name: one.clock_ahead_s for name, one in found.items()}))
    return [one for one in words if one]


def render_hosts(facts: dict[str, Any]) -> list[str]:
    """Return the lines of what ``examine_hosts`` found of each host."""
    lines = []
    for name, host in facts.get("hosts", {}).items():
        frameworks = ", ".join(f"{k} {v}" for k, v in host["installed"]["frameworks"].items())
        devices = host["devices"]
        lines.append(
            f"host            {name}: Python {host['python']}, {frameworks or 'no framework'}; "
            f"{devices['visible_gpus']} GPUs, {devices['visible_cores']} cores; clock "
            f"{host['clock_ahead_s']:+.1f} s"
        )
    return lines
