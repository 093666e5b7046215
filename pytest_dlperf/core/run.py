"""What is started, and what came back: plans, runs, and spans."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pytest_dlperf.core.hosts import Reach
from pytest_dlperf.core.scaling import Scaling


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Iterations ``first_step`` to ``last_step`` of one rank: the only raw datum."""

    rank: int
    first_step: int
    last_step: int
    seconds: float
    #: In the case's unit, by this rank alone.
    work: float
    cpu_seconds: float | None = None
    data_wait_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlan:
    """What one node of several runs, at the far end of a channel."""

    reach: Reach
    #: ``${MASTER_PORT}`` in it is filled in when the first node has named a free one.
    argv: tuple[str, ...]
    env: Mapping[str, str]
    #: Files that the command needs in the run's folder, by name.
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchPlan:
    """A command with its environment: a value that one can print, and run."""

    case_id: str
    argv: tuple[str, ...]
    #: What is set on top of the environment of the pytest process.
    env: Mapping[str, str]
    #: Folder of this run: records of the ranks, ``output.log``, the launcher's own files.
    workdir: str
    timeout_s: float
    #: Folder in which the command starts; empty for ``workdir``.
    cwd: str = ""
    #: Folder that must not outlive the run: the launcher writes the whole environment there,
    #: beside ``workerlog.*``, which end up in ``output.log``. Empty if there is none.
    private_logs: str = ""
    #: Files below ``workdir`` of what single ranks printed, as a glob; empty if there are none.
    rank_logs: str = ""
    #: Folder of the ranks' records, where several nodes share one; empty for ``workdir``.
    shared_records: str = ""
    #: The nodes of a launch over channels; then ``argv`` and ``env`` are what each is made of.
    nodes: tuple[NodePlan, ...] = ()
    #: Whether the command, started on the first node, starts the ranks of all.
    starts_all_nodes: bool = False

    @property
    def records(self) -> str:
        """Return the folder that every rank writes its records to."""
        return self.shared_records or self.workdir


#: Begins ``Run.end`` where nodes are to blame rather than ranks.
NODES: Final = "nodes: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One launch, ended."""

    plan: LaunchPlan
    #: Exit status of the launcher; negative for a signal; None if it did not end by itself.
    exit_code: int | None
    #: Seconds from the start of the supervisor to the end of the last process.
    elapsed_s: float
    #: Seconds since the epoch.
    started_at_s: float
    timed_out: bool = False
    #: Why it ended, where the supervisor knows better than the exit code.
    end: str = ""
    log: str = ""
    #: Processes of the launch on this host that lived when it was ended; None if unknown.
    alive: frozenset[int] | None = None
    #: The same of a launch over channels, by ``host name, PID namespace`` of each node.
    alive_on: Mapping[str, frozenset[int]] = field(default_factory=dict)
    #: Processes of this host that the kernel killed for lack of memory meanwhile.
    oom_kills: int = 0
    #: Why what was printed could not be kept; empty if it could.
    log_error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something that is odd about a measurement: a stable code, and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSummary:
    """What one rank did in the measured window of one run."""

    rank: int
    node: str
    seconds: float
    cpu_seconds: float | None
    #: None where the rank cannot tell.
    peak_memory_bytes: int | None
    #: Before anything was learnt: the loss of the first iteration. The few after it may
    #: overshoot, by an amount that differs from run to run.
    loss_first: float | None
    #: The mean over the last tenth of the iterations: where labels change at every step, a
    #: median can miss the large ones. None where a program tells no losses.
    loss_last: float | None
    device_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """What one run measured over its window. Rates are global, in the case's unit a second."""

    #: Work of all ranks over the time of the slowest.
    throughput: float
    #: Other rules' rates of the same window, for comparison: ``mean_of_rates`` (the mean of each
    #: iteration's rate, seed 003), ``median_step`` (work over the median iteration).
    estimates: Mapping[str, float]
    #: Seconds of every iteration of the slowest rank, warm-up included.
    step_seconds: tuple[float, ...]
    ranks: tuple[RankSummary, ...]
    #: Largest of all ranks; None if unknown.
    peak_memory_bytes: int | None
    #: None if the log of a program does not tell.
    time_to_first_step_s: float | None
    #: Rates of fixed work, the slowest rank's; see ``worker/frameworks/torch/framework.py``.
    canary: Mapping[str, float]
    #: CPU seconds of everybody else over the CPU seconds that the host had; None if unknown.
    others_cpu_share: float | None
    #: Why this run does not count (others used the machine); empty if it does.
    disturbed: str = ""
    #: Whether others' use of the CPUs, and nothing else, is why it does not count.
    others_cpu_alone: bool = False
    #: Share of the window that the slowest rank waited for data; None where nothing tells.
    data_wait_share: float | None = None
    #: Seconds that each of ``step_seconds`` waited for data; empty where nothing tells, or none
    #: waited.
    data_wait_seconds: tuple[float, ...] = ()
    problems: tuple[Problem, ...] = ()
    elapsed_s: float = 0.0
    log: str = ""
    #: The record of what happened, from the launch folder: where to look.
    folder: str = ""
    #: Figures that only some runs have: those of torch.compile, steal time, clocks of GPUs.
    extras: Mapping[str, float] = field(default_factory=dict)
    #: The canary of each node, the slowest of its ranks.
    canary_by_node: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: None for one rank, and where nothing was sampled after the window.
    scaling: Scaling | None = None

    @property
    def loss_fall(self) -> float | None:
        """By which share the loss fell, the median over ranks; below 0: it rose; or unknown."""
        falls = [
            (rank.loss_first - rank.loss_last) / abs(rank.loss_first)
            for rank in self.ranks
            if rank.loss_first and rank.loss_last is not None
        ]
        falls = [fall for fall in falls if math.isfinite(fall)]
        return statistics.median(falls) if falls else None
