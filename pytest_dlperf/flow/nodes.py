"""The hosts of a session: who takes part in a case, whether they agree, and their leases."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.hosts import hosts_of
from pytest_dlperf.flow.node_agreement import check_agreement, clocks_apart
from pytest_dlperf.flow.target_report import TargetReport, printed_report
from pytest_dlperf.launch.plan import launcher_name
from pytest_dlperf.launch.process.lease import host_lease
from pytest_dlperf.launch.programs import PROGRAMS
from pytest_dlperf.launch.remote.ask import ask
from pytest_dlperf.launch.remote.keepers import keep
from pytest_dlperf.launch.remote.transport import is_this_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.launch.base import Target
    from pytest_dlperf.launch.remote.transport import Ways

_REPORT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The hosts that ``--dlperf-hosts`` or an allocation names, and how they are reached."""

    hosts: tuple[Host, ...]
    ways: Ways
    #: How torchrun's nodes meet.
    rendezvous: str
    #: Folder of this package's copy, on every node.
    package_folder: Path
    #: What stands before a launcher's command on each node.
    prefix: tuple[str, ...]
    #: Values of the user's environment that go to the nodes.
    travelling: Mapping[str, str]
    #: Whether the user named the machine class: then nodes may be of different kinds.
    pinned: bool

    def hosts_of(self, case: Case) -> tuple[Host, ...]:
        """Return the hosts that run ``case``; none where this host alone does, as ever.

        Raises ``UsageError`` if there are too few, or one is too small.
        """
        if case.layout.nodes == 1 and is_this_host(self.hosts[0].name):
            return ()
        return hosts_of(case.layout, self.hosts)

    def check(self, case: Case, target: Target) -> None:
        """Raise ``CaseError`` unless the nodes of ``case`` are there, and agree.

        They are asked once a session; clocks that are apart are warned of.
        """
        hosts, files = self.hosts_of(case), code_of(case, target)
        name = launcher_name(case)
        programs = [name] if name in PROGRAMS else []
        check_agreement(case, hosts, self.reports(hosts, files, programs), mixed=self.pinned)

    def reports(
        self, hosts: Sequence[Host], files: Sequence[str] = (), programs: Sequence[str] = ()
    ) -> dict[str, TargetReport]:
        """Return what each host says of itself; raise ``CaseError`` for one that does not.

        The processes of a session share the answers.
        """
        question = json.dumps([[host.name for host in hosts], list(files), list(programs)])
        digest = hashlib.blake2b(question.encode(), digest_size=6).hexdigest()
        path = self.package_folder.with_name(f"nodes-{digest}.json")
        if path.exists():
            known = json.loads(path.read_text(encoding="utf-8"))
            return {name: decode(TargetReport, values) for name, values in known.items()}
        asked = ask_nodes(
            hosts,
            self.ways,
            package_folder=self.package_folder,
            prefix=self.prefix,
            files=files,
            programs=programs,
        )
        apart = clocks_apart({name: one.clock_ahead_s for name, one in asked.items()})
        if apart:
            warnings.warn(f"pytest-dlperf: {apart}", stacklevel=2)
        found = {name: one.report for name, one in asked.items()}
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        text = json.dumps({name: encode(report) for name, report in found.items()})
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
        return found

    @contextlib.contextmanager
    def lease(
        self, case: Case, *, leases: bool, on_wait: Callable[[str], None]
    ) -> Iterator[int | None]:
        """Hold the nodes of ``case``, ready and with their leases; yield this host's, if any."""
        own = [host.name for host in self.hosts_of(case) if is_this_host(host.name)]
        if len(own) > 1:
            raise CaseError(
                f"{case.id}: {' and '.join(own)} are one host, this one; name it once in "
                "--dlperf-hosts, with all its devices"
            )
        session = self.package_folder.parent
        parent = case.parent()
        others = [host.name for host in self.hosts_of(case) if not is_this_host(host.name)]
        descriptor: int | None = None
        with contextlib.ExitStack() as stack:

            def take_own() -> None:
                nonlocal descriptor
                if leases:
                    descriptor = stack.enter_context(host_lease(case.id, on_wait=on_wait))

            stack.enter_context(
                keep(
                    [self.ways.to(name) for name in others],
                    case.id,
                    package_folder=self.package_folder,
                    runs=[session / one.id for one in (case, parent) if one is not None],
                    leases=leases,
                    on_wait=on_wait,
                    own="".join(own),
                    take_own=take_own,
                )
            )
            yield descriptor


def code_of(case: Case, target: Target) -> list[str]:
    """Return the files of this host that the ranks of ``case`` run, as far as they are known."""
    if case.command:
        named = (Path(target.folder, word) for word in case.command_line[1:])
        return [str(path) for path in named if path.is_file()]
    module = case.workload.partition(":")[0].replace(".", "/")
    for folder in target.python_path:
        for path in (Path(folder, f"{module}.py"), Path(folder, module, "__init__.py")):
            if path.is_file():
                return [str(path)]
    return []


class Asked(NamedTuple):
    """What a node says of itself."""

    report: TargetReport
    clock_ahead_s: float


def ask_nodes(
    hosts: Sequence[Host],
    ways: Ways,
    *,
    package_folder: Path,
    prefix: Sequence[str] = (),
    files: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> dict[str, Asked]:
    """Ask every host at once; raise ``CaseError`` for one that gives no answer."""
    answers = ask(
        [ways.to(host.name) for host in hosts],
        [
            ways.python, "-m", "pytest_dlperf.flow.target_report",
            *(f"--file={name}" for name in files), *(f"--program={name}" for name in programs),
        ],
        env={"PYTHONPATH": str(package_folder)},
        prefix=prefix,
        package_folder=package_folder,
        timeout_s=_REPORT_TIMEOUT_S,
    )  # fmt: skip
    found = {}
    for name, answer in answers.items():
        text = answer.output.decode("utf-8", errors="replace")
        report = printed_report(text)
        if answer.problem or report is None:
            said = "".join(f"\n    {x[:400]}" for x in text.splitlines()[-12:] if x.strip())
            raise CaseError(f"{name}: {answer.problem or 'it gave no answer'}{said}")
        found[name] = Asked(report, answer.clock_ahead_s or 0.0)
    return found
