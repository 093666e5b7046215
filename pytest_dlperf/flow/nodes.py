"""Several nodes of a session: which of them run a case, whether they are alike, their leases."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.place import Host, hosts_of
from pytest_dlperf.core.writable import last_lines
from pytest_dlperf.flow.target_report import TargetReport, printed_report
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.launchers import program_of
from pytest_dlperf.launch.process.lease import host_lease
from pytest_dlperf.launch.remote.nodes import Leases, ask, keep
from pytest_dlperf.launch.remote.transport import Transport, is_this_host
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.report.printable import shown

#: Clocks that differ by more than this mislead readers of logs of several nodes, and give a
#: wrong order in which ranks stopped.
CLOCKS_APART_S: Final = 2.0
_REPORT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The hosts that ``--dlperf-hosts`` or an allocation names, and how they are reached."""

    hosts: tuple[Host, ...]
    transport: Transport
    #: How torchrun's nodes meet.
    rendezvous: str
    #: Folder of this package's copy, on every node.
    package_folder: Path
    #: Put before a launcher's command on each node.
    prefix: tuple[str, ...]
    #: Values of the user's environment that go to the nodes.
    travelling: Mapping[str, str]
    #: Whether the user pinned the machine class: then nodes may have different hardware.
    pinned: bool

    def hosts_of(self, case: Case) -> tuple[Host, ...]:
        """Return the hosts that run ``case``; empty where this host runs it without channels.

        Raises ``UsageError`` if there are too few, or one is too small.
        """
        if case.layout.nodes == 1 and is_this_host(self.hosts[0].name):
            return ()
        return hosts_of(case.layout, self.hosts)

    def check(self, case: Case, target: Target) -> None:
        """Raise ``CaseError`` unless the nodes of ``case`` can be reached and are alike.

        They are asked once a session. Clocks that differ give a warning.
        """
        hosts, files = self.hosts_of(case), code_of(case, target)
        programs = [name] if (name := program_of(case)) else []
        check_agreement(case, hosts, self.reports(hosts, files, programs), mixed=self.pinned)

    def reports(
        self, hosts: Sequence[Host], files: Sequence[str] = (), programs: Sequence[str] = ()
    ) -> dict[str, TargetReport]:
        """Return the report of each host; raise ``CaseError`` for a host that gives none.

        The processes of a session share the answers by a file.
        """
        question = json.dumps([[host.name for host in hosts], list(files), list(programs)])
        digest = hashlib.blake2b(question.encode(), digest_size=6).hexdigest()
        path = self.package_folder.with_name(f"nodes-{digest}.json")
        if path.exists():
            answers = json.loads(path.read_text(encoding="utf-8"))
            return {name: decode(TargetReport, values) for name, values in answers.items()}
        asked = ask_nodes(
            hosts,
            self.transport,
            package_folder=self.package_folder,
            prefix=self.prefix,
            files=files,
            programs=programs,
        )
        apart = clocks_apart({name: answer.clock_ahead_s for name, answer in asked.items()})
        if apart:
            warnings.warn(shown(f"pytest-dlperf: {apart}"), stacklevel=2)
        reports = {name: answer.report for name, answer in asked.items()}
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        text = json.dumps({name: encode(report) for name, report in reports.items()})
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
        return reports

    @contextlib.contextmanager
    def lease(
        self, case: Case, *, leases: bool, on_wait: Callable[[str], None]
    ) -> Iterator[int | None]:
        """Hold the nodes of ``case``; yield the descriptor of this host's lease, if it is one."""
        own = [host.name for host in self.hosts_of(case) if is_this_host(host.name)]
        if len(own) > 1:
            raise CaseError(
                f"{' and '.join(own)} are one host, this one; name it once in "
                "--dlperf-hosts, with all its devices",
                subject=case.id,
            )
        session = self.package_folder.parent
        parent = case.parent()
        other_names = [host.name for host in self.hosts_of(case) if not is_this_host(host.name)]
        descriptor: int | None = None
        with contextlib.ExitStack() as stack:

            def take_this_host() -> None:
                nonlocal descriptor
                descriptor = stack.enter_context(host_lease(case.id, on_wait=on_wait))

            calls = Leases(on_wait=on_wait, take_this_host=take_this_host)

            stack.enter_context(
                keep(
                    [self.transport.reach(name) for name in other_names],
                    case.id,
                    package_folder=self.package_folder,
                    runs=[
                        session / trained.id for trained in (case, parent) if trained is not None
                    ],
                    this_host="".join(own),
                    leases=calls if leases else None,
                )
            )
            yield descriptor


def code_of(case: Case, target: Target) -> list[str]:
    """Return the files of this host whose code the ranks of ``case`` run, as far as known."""
    if case.command:
        named = (Path(target.folder, word) for word in case.command_line()[1:])
        return [str(path) for path in named if path.is_file()]
    module = case.workload.partition(":")[0].replace(".", "/")
    for folder in target.python_path:
        for path in (Path(folder, f"{module}.py"), Path(folder, module, "__init__.py")):
            if path.is_file():
                return [str(path)]
    return []


class Asked(NamedTuple):
    """The answer of a node."""

    report: TargetReport
    clock_ahead_s: float


def ask_nodes(
    hosts: Sequence[Host],
    transport: Transport,
    *,
    package_folder: Path,
    prefix: Sequence[str] = (),
    files: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> dict[str, Asked]:
    """Ask every host at once; raise ``CaseError`` for one that gives no answer."""
    answers = ask(
        [transport.reach(host.name) for host in hosts],
        [
            transport.python, "-m", "pytest_dlperf.flow.target_report",
            *(f"--file={name}" for name in files), *(f"--program={name}" for name in programs),
        ],
        env={"PYTHONPATH": str(package_folder)},
        prefix=prefix,
        package_folder=package_folder,
        timeout_s=_REPORT_TIMEOUT_S,
    )  # fmt: skip
    asked = {}
    for name, answer in answers.items():
        text = answer.output.decode("utf-8", errors="replace")
        report = printed_report(text)
        if answer.problem or report is None:
            output = last_lines(text) if text.strip() else ""
            raise CaseError(answer.problem or "it gave no answer", subject=name, remarks=output)
        asked[name] = Asked(report, answer.clock_ahead_s or 0.0)
    return asked


def check_agreement(
    case: Case, hosts: Sequence[Host], reports: Mapping[str, TargetReport], *, mixed: bool
) -> None:
    """Raise ``CaseError`` unless the nodes of ``case`` can train it together.

    ``reports`` are by host name; the others are compared with the first host's. ``mixed`` allows
    nodes of different hardware.
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
            raise CaseError(problem, subject=case.id)


def unlike(first: str, expected: TargetReport, name: str, report: TargetReport) -> str:
    """Return the difference between two nodes that matters for a case; empty if there is none."""
    # The version of this package is not compared: every node runs the same copy of it.
    if report.python != expected.python:
        return (
            f"{name} has Python {report.python}, {first} has {expected.python}; all nodes need "
            "the same, and --dlperf-python names an interpreter"
        )
    for framework in sorted({*expected.installed.frameworks, *report.installed.frameworks}):
        version = report.installed.frameworks.get(framework)
        expected_version = expected.installed.frameworks.get(framework)
        if version != expected_version:
            return (
                f"{name} has {framework} {version or 'not installed'}, {first} has "
                f"{expected_version or 'none'} ({report.executable}); install one version on "
                "all nodes"
            )
    for path, digest in expected.files.items():
        if report.files.get(path) is None:
            return f"{name} has no {path}; put the code at the same path on every node"
        if report.files[path] != digest:
            return f"{path} differs between {name} and {first}; put the same code on every node"
    for program, place in expected.programs.items():
        if place is None or report.programs.get(program) is None:
            where = first if place is None else name
            return f"{program}, which starts the ranks, is not on {where}; see dlperf doctor"
    return ""


def too_small(host: Host, devices: Devices, kind: str, needed: int) -> str:
    """Return the message that a node has too few devices; empty if it has enough."""
    if kind == "gpu":
        if devices.gpu_problem:
            return f"the GPUs of {host.name} are unusable: {devices.gpu_problem}"
        has, what = devices.visible_gpus, "GPUs"
    else:
        has, what = devices.visible_cores, "cores"
    if has < needed:
        return f"{host.name} has {has} {what}, and {needed} are needed"
    return ""


def _other_hardware(first: str, name: str, reports: Mapping[str, TargetReport], case: Case) -> str:
    own, other = (
        reports[host].devices.machine_class(case.layout.device, case.layout.devices_per_node)
        for host in (first, name)
    )
    if own == other:
        return ""
    return (
        f"{name} is {other}, {first} is {own}; baselines belong to one kind of machine: name "
        "hosts of one kind, or pin a class for the mixture (ini dlperf_machine_class)"
    )


def clocks_apart(ahead_s: Mapping[str, float]) -> str:
    """Return the message that the clocks of two nodes differ; empty if none do."""
    if not ahead_s:
        return ""
    last, first = max(ahead_s, key=lambda n: ahead_s[n]), min(ahead_s, key=lambda n: ahead_s[n])
    apart_s = ahead_s[last] - ahead_s[first]
    if apart_s <= CLOCKS_APART_S:
        return ""
    return f"the clock of {last} is {apart_s:.1f} s ahead of that of {first}; run chrony or ntpd"
