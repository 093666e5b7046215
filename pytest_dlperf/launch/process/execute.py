"""Execute a launch plan under a supervisor. All ranks that pytest starts are started here."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.run import EndReason, LaunchPlan, Run, RunEnd
from pytest_dlperf.launch.process import supervisor as supervisor_program
from pytest_dlperf.launch.process.left_over import RUN_VARIABLE, end_left_over
from pytest_dlperf.launch.process.orphans import Adoption
from pytest_dlperf.launch.process.run_logs import absorb_logs
from pytest_dlperf.launch.process.stopped import SILENT_S, Pulse, end_tree
from pytest_dlperf.launch.process.supervisor import Report
from pytest_dlperf.launch.process.tree import GRACE_S, UNKILLABLE_S
from pytest_dlperf.launch.remote.over_hosts import (
    LONGER_S,
    command_over_hosts,
    how_nodes_ended,
    remove_settings,
)
from pytest_dlperf.launch.turns.by_time import TimedReferee, TimedTurns
from pytest_dlperf.launch.turns.cgroup import remove_left_cgroups
from pytest_dlperf.launch.turns.lines import Lines, Turns
from pytest_dlperf.launch.turns.referee import PairReferee, Referee, TurnsPlan

_POLL_S: Final = 0.25
#: A supervisor that has not ended so long after its timeout does not go on: it needs 20 s to end
#: what SIGKILL does not end, and some more for its logs. It is woken before.
_WAKE_S: Final = 30.0
_GIVE_UP_S: Final = 60.0


def execute(
    plan: LaunchPlan,
    *,
    lease: int | None = None,
    on_tick: Callable[[Path], None] | None = None,
) -> Run:
    """Run ``plan`` to its end and return what happened.

    ``on_tick`` is called four times a second with the folder of the records. An exception, such
    as Ctrl-C, ends the launch before it propagates. The launch's temporary files are removed.
    """
    with contextlib.closing(_Launch(plan, lease)) as launch:
        while not launch.has_ended(_POLL_S):
            if on_tick is not None:
                on_tick(Path(plan.records))
    return launch.run()


class InTurns(NamedTuple):
    """How the launches of a pair ended."""

    runs: tuple[Run, ...]
    #: The launch that failed, or ended before it had all its turns, or that kept the other one
    #: waiting until the timeout; None if both came to their end.
    failed: int | None
    #: What of each launch did not stand still between its turns; empty for nothing.
    moving: tuple[str, ...]
    #: Why the launch that failed had no more turns, where its own end does not say so.
    fault: str


def execute_in_turns(
    plans: Sequence[LaunchPlan],
    turns_plan: TurnsPlan | TimedTurns,
    order: random.Random,
    *,
    lease: int | None = None,
    on_tick: Callable[[Path], None],
) -> InTurns:
    """Run two plans at the same time, with their windows in turns; else as ``execute``.

    With ``TimedTurns`` all that they do is in turns, by time. If one of them fails, or ends before
    its last turn, the other one is ended as well. ``order`` draws which launch is first in each
    pair of turns; ``on_tick`` is called with the records of either.
    """
    ranks = 0 if isinstance(turns_plan, TimedTurns) else turns_plan.ranks
    with contextlib.ExitStack() as stack:
        launches, sockets = [], []
        for plan in plans:
            here, there = socket.socketpair()
            sockets.append(stack.enter_context(contextlib.closing(Lines(here.detach()))))
            with there:
                turns = Turns(referee=there.fileno(), ranks=ranks)
                launch = _Launch(plan, lease, turns)
            launches.append(stack.enter_context(contextlib.closing(launch)))
        referee: PairReferee = (
            TimedReferee(sockets, turns_plan, order)
            if isinstance(turns_plan, TimedTurns)
            else Referee(sockets, turns_plan, order)
        )
        for launch in launches:
            # Both at once, also after an exception, rather than one after the other.
            stack.callback(launch.ask_to_end)
        failed, tick_s = None, time.monotonic() + _POLL_S
        while failed is None and not all(launch.has_ended(0) for launch in launches):
            referee.wait(_POLL_S)
            ended = [index for index, launch in enumerate(launches) if launch.has_ended(0)]
            failed = next(
                (i for i in ended if launches[i].has_failed or not referee.is_through(i)),
                referee.left,
            )
            if failed is None and ended:
                referee.release(1 - ended[0])
            if time.monotonic() > tick_s:
                tick_s = time.monotonic() + _POLL_S
                for plan in plans:
                    on_tick(Path(plan.records))
    runs = tuple(launch.run() for launch in launches)
    if isinstance(referee, TimedReferee):
        runs = tuple(
            replace(run, timed_turns=referee.turns(index)) for index, run in enumerate(runs)
        )
    if failed is not None and runs[failed].timed_out:
        failed = referee.awaited
    moving = tuple(referee.moving(index) for index in range(len(plans)))
    return InTurns(runs, failed, moving, referee.fault)


class _Launch:
    """A launch under its supervisor; ``close`` ends it and what it left."""

    def __init__(self, plan: LaunchPlan, lease: int | None, turns: Turns | None = None) -> None:
        self._plan = plan
        self._workdir = Path(plan.workdir)
        self._workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not in the run's folder: the path of a socket has 108 bytes at most.
        self._temporary = tempfile.TemporaryDirectory(prefix="dlperf-", ignore_cleanup_errors=True)
        self._started_at_s, self._begin_s = time.time(), time.monotonic()
        self._elapsed_s = 0.0
        #: When the timeout was seen to have passed; None before it.
        self._overdue_s: float | None = None
        #: Processes of a launch that was given up, since its supervisor did not go on.
        self._given_up: list[int] | None = None
        self._lease = lease
        self._adoption = Adoption()
        self._supervisor = _start(plan, self._workdir, lease, self._temporary.name, turns)

    def has_ended(self, wait_s: float) -> bool:
        """Return whether the launch has ended, after ``wait_s`` at most.

        One whose supervisor was stopped, and does not go on, is ended a minute after its timeout.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(timeout=wait_s)
            # Of its own end: the other launch of a pair may take longer.
            self._elapsed_s = self._elapsed_s or time.monotonic() - self._begin_s
        if self._supervisor.returncode is None and self._given_up is None:
            self._adoption.look(self._supervisor)
            self._give_up_if_overdue()
        return self._supervisor.returncode is not None or self._given_up is not None

    @property
    def has_failed(self) -> bool:
        """Whether the launch, which has ended, did so otherwise than with exit status 0."""
        report = _report(self._supervisor, self._workdir, self._given_up)
        return report["end"] != "exited" or report.get("exit_code") != 0

    def _give_up_if_overdue(self) -> None:
        now_s = time.monotonic()
        if now_s < self._begin_s + _timeout_s(self._plan):
            return
        # Not by the clock alone: all of them may have been stopped together
        self._overdue_s = self._overdue_s or now_s
        overdue_s = now_s - self._overdue_s
        if overdue_s > _WAKE_S:
            self._supervisor.send_signal(signal.SIGCONT)
        if overdue_s > _GIVE_UP_S:
            self._given_up = end_tree(self._supervisor)

    def ask_to_end(self) -> None:
        """Close the pipe, which ends the launch; does not wait for that."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()

    def close(self) -> None:
        """End the launch, wait for that, and remove its temporary files."""
        try:
            self.ask_to_end()
            interrupt = _await_end(self._supervisor, self._workdir)
            if self._supervisor.poll() != 0:
                self._adoption.end_orphans()
            if self._supervisor.poll() is None and self._lease is not None:
                # Nothing ends it, in a cgroup that is frozen; it does nothing either
                fcntl.flock(self._lease, fcntl.LOCK_UN)
            if self._plan.nodes:
                remove_settings(self._workdir)
            if self._plan.private_logs:
                # Already done, unless the supervisor was killed.
                absorb_logs(Path(self._plan.private_logs), self._workdir / "output.log")
        finally:
            self._adoption.close()
            self._temporary.cleanup()
        if interrupt is not None:
            raise interrupt  # it came while the launch ended, and the session is to end

    def run(self) -> Run:
        """Return what happened; the launch has ended."""
        report = _report(self._supervisor, self._workdir, self._given_up)
        nodes = how_nodes_ended(self._workdir)
        return Run(
            plan=self._plan,
            exit_code=report.get("exit_code"),
            elapsed_s=self._elapsed_s or time.monotonic() - self._begin_s,
            started_at_s=self._started_at_s,
            timed_out=nodes.timed_out or report["end"] == "timeout",
            end=nodes.end or _end_of(report),
            log=str(self._workdir / "output.log"),
            alive=frozenset(report["alive"])
            if "alive" in report and not self._plan.nodes
            else None,
            alive_on=nodes.alive,
            oom_kills=report.get("oom_kills", 0),
            log_error=report.get("log_error", ""),
        )


def _start(
    plan: LaunchPlan,
    workdir: Path,
    lease: int | None,
    temporary: str,
    turns: Turns | None,
) -> subprocess.Popen[bytes]:
    argv, env = plan.argv, dict(plan.env)
    flags = [f"--private-logs={plan.private_logs}"] if plan.private_logs else []
    if turns is not None:
        flags += [f"--referee={turns.referee}", f"--turns={turns.ranks}"]
        flags += [f"--records={plan.records}"]
    if plan.nodes:
        # The ranks' environment goes to them over the channels.
        argv, env = command_over_hosts(plan, turns), {RUN_VARIABLE: plan.env[RUN_VARIABLE]}
        flags += ["--is-channel"]
    descriptors = [lease] if lease is not None else []
    descriptors += [turns.referee] if turns is not None else []
    with (workdir / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable,
                # Isolated: a file of the test's folder must not hide a module of the
                # standard library.
                "-I",
                supervisor_program.__file__,
                f"--timeout-s={_timeout_s(plan):g}",
                f"--workdir={workdir}",
                f"--rank-logs={plan.rank_logs}",
                f"--temporary={temporary}",
                *flags,
                "--",
                *argv,
            ],
            cwd=workdir if plan.nodes else plan.cwd or workdir,
            env={**os.environ, "TMPDIR": temporary, **env},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            # Out of the terminal's process group: pytest alone handles Ctrl-C.
            start_new_session=True,
        )


def _timeout_s(plan: LaunchPlan) -> float:
    """Return the timeout of the supervisor."""
    return plan.timeout_s + (LONGER_S if plan.nodes else 0)


def _await_end(supervisor: subprocess.Popen[bytes], workdir: Path) -> KeyboardInterrupt | None:
    """Wait until the supervisor, whose pipe is closed, has exited.

    Returns the interrupt that came meanwhile, if one did.
    """
    interrupt = None
    deadline_s = time.monotonic() + GRACE_S + UNKILLABLE_S + 5
    pulse = Pulse(supervisor.pid)
    supervisor.send_signal(signal.SIGCONT)  # one that was stopped ends its launch now
    while supervisor.poll() is None and time.monotonic() < deadline_s:
        if pulse.silent_s() > SILENT_S:
            break
        try:
            supervisor.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt as error:
            interrupt = error  # a second Ctrl-C must not leave ranks behind
    if supervisor.poll() != 0:
        # It was killed, or is stuck: find the others of the launch by their environment.
        end_tree(supervisor)
        end_left_over([str(workdir)])
        remove_left_cgroups()
    return interrupt


def _report(
    supervisor: subprocess.Popen[bytes], workdir: Path, given_up: list[int] | None
) -> Report:
    path = workdir / "supervisor.json"
    if given_up is not None:
        message = f"pid {supervisor.pid} was stopped, or its cgroup is frozen"
        return {"end": "supervisor-stopped", "message": message, "alive": given_up}
    if not path.exists() and supervisor.returncode > 1:
        why = os.strerror(supervisor.returncode)
        return {"end": "report-not-written", "message": f"{path}: {why}"}
    if not path.exists():
        return {
            "end": "supervisor-died",
            "message": f"exit status {supervisor.returncode}; see {workdir / 'supervisor.log'}",
        }
    try:
        report: Report = json.loads(path.read_text(encoding="utf-8"))
        _end_of(report)
    except (ValueError, KeyError, TypeError, RecursionError):
        # The ranks run in its folder
        message = f"{path} is not what a supervisor writes; exit status {supervisor.returncode}"
        return {"end": "supervisor-died", "message": message}
    return report


def _end_of(report: Report) -> RunEnd:
    return RunEnd(
        reason=EndReason(report["end"]),
        message=report.get("message", ""),
        unkilled=tuple(report.get("unkilled", ())),
    )
