"""Whether the nodes of a case agree: versions, code, devices, clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.flow.target_report import TargetReport
    from pytest_dlperf.measure.devices import Devices

#: Clocks farther apart than this mislead whoever reads logs of several nodes side by side, and
#: the order in which ranks are said to have stopped.
CLOCKS_APART_S: Final = 2.0


def check_agreement(
    case: Case, hosts: Sequence[Host], reports: Mapping[str, TargetReport], *, mixed: bool
) -> None:
    """Raise ``CaseError`` unless the nodes of ``case`` can train it together.

    ``reports`` are by host; the first host's is what others are held
    against. ``mixed``: nodes of different hardware are what the user wants.
    """
    first = hosts[0].name
    for host in hosts:
        problem = (
            unlike(first, reports[first], host.name, reports[host.name])
            or too_small(
                host,
                reports[host.name].devices,
                case.layout.device,
                case.layout.devices_per_node,
            )
            or ("" if mixed else _other_hardware(first, host.name, reports, case))
        )
        if problem:
            raise CaseError(f"{case.id}: {problem}")


def unlike(first: str, expected: TargetReport, name: str, found: TargetReport) -> str:
    """Return what is different on a node; empty if nothing is."""
    # This package is not asked for: every node runs the same copy of it.
    if found.python != expected.python:
        return (
            f"{name} has Python {found.python}, {first} has {expected.python}; all nodes need the "
            "same, and --dlperf-python names an interpreter"
        )
    for framework in sorted({*expected.installed.frameworks, *found.installed.frameworks}):
        other = found.installed.frameworks.get(framework)
        version = expected.installed.frameworks.get(framework)
        if other != version:
            return (
                f"{name} has {framework} {other or 'not installed'}, {first} has "
                f"{version or 'none'} ({found.executable}); install one version on all nodes"
            )
    for path, digest in expected.files.items():
        if found.files.get(path) is None:
            return f"{name} has no {path}; put the code at the same path on every node"
        if found.files[path] != digest:
            return f"{path} differs between {name} and {first}; put the same code on every node"
    for program, place in expected.programs.items():
        if place is None or found.programs.get(program) is None:
            where = first if place is None else name
            return f"{program}, which starts the ranks, is not on {where}; see dlperf doctor"
    return ""


def too_small(host: Host, devices: Devices, kind: str, needed: int) -> str:
    """Return that a node has fewer devices than are needed of it; empty if it has enough."""
    if kind == "gpu":
        if devices.gpu_problem:
            return f"the GPUs of {host.name} are unusable: {devices.gpu_problem}"
        has, what = devices.visible_gpus, "GPUs"
    else:
        has, what = devices.visible_cores, "cores"
    if has < needed:
        return f"{host.name} has {has} {what}, and {needed} are asked of it"
    return ""


def _other_hardware(first: str, name: str, reports: Mapping[str, TargetReport], case: Case) -> str:
    own, other = (
        reports[host].devices.machine_class(case.layout.device) for host in (first, name)
    )
    if own == other:
        return ""
    return (
        f"{name} is {other}, {first} is {own}; baselines are those of one kind of machine: name "
        "hosts that are alike, or pin the class of the mixture (ini dlperf_machine_class)"
    )


def clocks_apart(ahead_s: Mapping[str, float]) -> str:
    """Return whose clocks are apart, in words; empty if none are."""
    if not ahead_s:
        return ""
    last, first = max(ahead_s, key=lambda n: ahead_s[n]), min(ahead_s, key=lambda n: ahead_s[n])
    apart_s = ahead_s[last] - ahead_s[first]
    if apart_s <= CLOCKS_APART_S:
        return ""
    return f"the clock of {last} is {apart_s:.1f} s ahead of that of {first}; run chrony or ntpd"
