"""Hold the hosts of a case: take their leases, then wait until no other process uses the GPUs.

The lease is held while GPUs are checked, so no rank of this user's sessions lives then: a process
that has a context on a GPU belongs to something else.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, CaseError
from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.process.lease import host_lease
from pytest_dlperf.measure import nvml
from pytest_dlperf.measure.nvml import GpuProcesses, counts_our_processes
from pytest_dlperf.measure.visible_gpus import chooses_itself, gpus_of
from pytest_dlperf.report.figures import duration

_POLL_S: Final = 2.0
#: The driver shows a process that has ended for a moment, such as the ranks of the case before.
_SETTLE_S: Final = 3.0
#: Between two messages about the processes that are waited for.
_AGAIN_S: Final = 600.0


@contextlib.contextmanager
def hold_host(case: Case, watcher: Watcher, gpu_use: GpuUse) -> Iterator[int]:
    """Hold this host for ``case``; yield the descriptor of its lease.

    Waits without limit for other sessions, and for foreign processes on the case's GPUs as
    ``gpu_use`` says. Raises ``CaseError`` if they stay, and ``BudgetSpentError`` if the session's
    budget ends.
    """
    wait = _HostWait(case, watcher, "this host", gpu_use.options)
    with host_lease(case.id, on_wait=wait.goes_on) as lease:
        wait.ends()
        gpu_use.await_others(case, lambda what: watcher.notice(case, what))
        yield lease


@contextlib.contextmanager
def hold_hosts(
    case: Case, nodes: Nodes, watcher: Watcher, *, shared: bool
) -> Iterator[int | None]:
    """Hold every node of ``case``; yield the descriptor of this host's lease, if it is one.

    With ``shared`` no leases are taken; the nodes are only prepared.
    """
    wait = _HostWait(case, watcher, "a node", OF_PYTEST)
    with nodes.lease(case, leases=not shared, on_wait=wait.goes_on) as lease:
        wait.ends()
        yield lease


class _HostWait:
    """Says for whom a case waits, and that it waits no more."""

    def __init__(self, case: Case, watcher: Watcher, host: str, options: OptionNames) -> None:
        self._case, self._watcher, self._host = case, watcher, host
        share = options.typed("share-host")
        self._advice = f"; {share} measures beside it, and less steadily" if share else ""
        self._began_s = 0.0

    def goes_on(self, holder: str) -> None:
        """Name the holder; the first time with what else can be done."""
        advice = "" if self._began_s else self._advice
        self._began_s = self._began_s or time.monotonic()
        self._watcher.notice(self._case, f"waiting for {self._host}, held by {holder}{advice}")

    def ends(self) -> None:
        """Say how long the wait was, if there was one."""
        if self._began_s:
            waited = duration(time.monotonic() - self._began_s)
            self._watcher.notice(self._case, f"waited {waited} for {self._host}, and has it")


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """How a session treats other processes on the GPUs of a case (``--dlperf-busy-gpus``)."""

    #: ``wait``, ``refuse`` or ``ignore``; None if the option is not given, which means to wait.
    choice: str | None = None
    #: How the user types options that a message advises.
    options: OptionNames = OF_PYTEST
    #: Model of each GPU of the host, in the order of the bus.
    names: Sequence[str] = ()
    prefix: Sequence[str] = ()
    budget: Budget | None = None
    #: Processes that a case of this session has waited for until its timeout.
    in_vain: set[int] = field(default_factory=set)
    #: Reasons why other processes could not be seen that were reported already.
    unseen: set[str] = field(default_factory=set)

    def await_others(self, case: Case, report: Callable[[str], None]) -> None:
        """Return once no other process uses the GPUs of ``case``, or at once for ``ignore``.

        ``report`` gets messages about the wait. Raises ``CaseError`` if other processes use them
        and ``refuse`` is set, or they still do after the case's timeout. Where other processes
        cannot be seen, that is an error if the option was given, else only reported.
        """
        is_here = case.layout.nodes == 1
        if case.layout.device != "gpu" or self.choice == "ignore" or not is_here:
            return
        begin_s = time.monotonic()
        last_report_s = -_AGAIN_S
        while True:
            processes = self._foreign_processes(case)
            if isinstance(processes, str):
                self._not_seen(case, processes, report)
                return
            waited_s = time.monotonic() - begin_s
            if not processes:
                return
            if waited_s >= _SETTLE_S:
                self._check_patience(case, processes, waited_s)
                if waited_s - last_report_s >= _AGAIN_S:
                    last_report_s = waited_s
                    left_s = case.protocol.timeout_s - waited_s
                    report(f"waiting up to {left_s:.0f} s for {_describe(processes)}")
            time.sleep(_POLL_S if waited_s >= _SETTLE_S else _SETTLE_S / 6)

    def _check_patience(
        self, case: Case, processes: Mapping[int, list[GpuProcesses]], waited_s: float
    ) -> None:
        """Raise if ``others`` are not waited for any longer."""
        remedy = "end it, or name other GPUs with CUDA_VISIBLE_DEVICES"
        if ignore := self.options.typed("busy-gpus=ignore"):
            remedy = (
                "end it, name other GPUs with CUDA_VISIBLE_DEVICES, or measure anyway with "
                f"{ignore}"
            )
        if self.choice == "refuse":
            raise CaseError(
                f"not measured, because of {_describe(processes)}; {remedy}", subject=case.id
            )
        if waited_s >= case.protocol.timeout_s:
            self.in_vain.update(processes)
            raise CaseError(
                f"not measured: waited {waited_s:.0f} s, the timeout of a run, for "
                f"{_describe(processes)}; {remedy}",
                subject=case.id,
            )
        if set(processes) <= self.in_vain:
            raise CaseError(
                f"not measured: a case before it has waited in vain for "
                f"{_describe(processes)}; {remedy}",
                subject=case.id,
            )
        if self.budget is not None and not self.budget.allows(0):
            raise BudgetSpentError(case.id)

    def _not_seen(self, case: Case, why: str, report: Callable[[str], None]) -> None:
        if self.choice is not None:
            asked = self.options.typed(f"busy-gpus={self.choice}")
            raise CaseError(
                f"{asked} asks whether others use its GPUs, "
                f"and that cannot be seen: {why}; or leave the option out",
                subject=case.id,
            )
        if why not in self.unseen:
            self.unseen.add(why)
            report(f"whether others use its GPUs cannot be seen: {why}")

    def _foreign_processes(self, case: Case) -> dict[int, list[GpuProcesses]] | str:
        """Return the GPUs of ``case`` that each foreign process uses, or why that is not known."""
        driver = nvml.open_nvml()
        if isinstance(driver, str):
            return driver
        if chooses_itself(self.prefix):
            return "the prefix chooses GPUs itself"
        if driver.lost:
            return "; ".join(f"GPU {i} does not answer: {why}" for i, why in driver.lost.items())
        gpus = driver.processes()
        numbers = gpus_of(case.layout.devices_per_node, gpus, self.names, os.environ)
        if isinstance(numbers, str):
            return numbers
        own_pids = siblings() if nvml.counts_our_processes() else set()
        gpus_by_pid: dict[int, list[GpuProcesses]] = {}
        for gpu in (gpus[number] for number in numbers):
            if gpu.memory_by_process is None:
                return f"the driver does not list the processes of GPU {gpu.index}"
            for pid in gpu.memory_by_process.keys() - own_pids:
                gpus_by_pid.setdefault(pid, []).append(gpu)
        return gpus_by_pid


def _describe(processes: Mapping[int, list[GpuProcesses]]) -> str:
    words = []
    for pid, gpus in sorted(processes.items()):
        by_gpu = [(gpu.memory_by_process or {}).get(pid) for gpu in gpus]
        sizes = [size for size in by_gpu if size is not None]
        memory = f", {sum(sizes) / 2**30:.1f} GiB" if sizes else ""
        which = ", ".join(str(gpu.index) for gpu in gpus)
        noun = "GPU" if len(gpus) == 1 else "GPUs"
        words.append(f"{describe_process(pid)} on {noun} {which}{memory}")
    return "; ".join(words)


def describe_process(pid: int) -> str:
    """Return ``pid 123 (user: program script)``, without parts that are not known.

    Arguments of its command line are left out, since they may be secret.
    """
    if not counts_our_processes():
        return f"pid {pid} of the host, which this container cannot look at,"
    folder = Path(f"/proc/{pid}")
    try:
        uid = folder.stat().st_uid
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"pid {pid}"
    return f"pid {pid} ({_user(uid)}: {_command(words) or 'command not known'})"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _command(words: list[str]) -> str:
    program, *rest = [Path(word).name for word in words if word] or [""]
    is_script = bool(rest) and program.startswith("python") and rest[0].endswith(".py")
    return f"{program} {rest[0]}" if is_script else program


def siblings() -> set[int]:
    """Return the pids of this process and, under pytest-xdist, of its session's other processes.

    If they use a GPU, the tests themselves do, so a case does not wait for them.
    """
    found = {os.getpid()}
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return found
    parent = os.getppid()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # it ended while we looked
        if int(fields.rpartition(")")[2].split()[1]) == parent:
            found.add(int(entry.name))
    return found | {parent}
