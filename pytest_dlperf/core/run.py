"""Launch plans, and what a launch returns: runs, spans, scaling, summaries, problems."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final, Literal, NamedTuple, TypedDict

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.metric import Figure
from pytest_dlperf.core.place import Reach
from pytest_dlperf.core.quantity import rounded
from pytest_dlperf.core.wire_records import RunFacts

#: Source of a rank's own time: steps without waiting for other ranks, or, on CPUs, the CPU
#: seconds of the measured window.
OWN_STEPS: Final = "own steps"
CPU_SECONDS: Final = "CPU seconds"


@dataclass(frozen=True, kw_only=True, slots=True)
class RankScaling:
    """One rank in a few sampled iterations after the window; ``docs/scaling.md``."""

    rank: int
    node: str
    #: Seconds of an ordinary iteration.
    step_seconds: float
    #: Seconds of an iteration in which the rank waits for no other; None where unknown.
    own_seconds: float | None = None
    #: Seconds that collectives add to an iteration, with the wait for slower ranks; from a
    #: timeline their duration, without the wait.
    collective_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """The scaling of one run, sampled on its ranks after the window."""

    #: How collectives were measured; shares of two methods are not compared.
    method: str = ""
    #: Their kind: ``all-reduce``, or ``collectives`` where the step calls others too.
    collective: str = "all-reduce"
    ranks: tuple[RankScaling, ...] = ()
    #: Share of an iteration that collectives add on the slowest rank, which does not wait for
    #: others; None where it is unknown.
    collectives_share: float | None = None
    #: Bytes of the message over seconds, of the slowest rank; keyed by bytes. Sizes for which a
    #: slow link left no time are absent.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_sizes(self.all_reduce_gb_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredScaling:
    """The scaling of a session, as it is stored."""

    method: str = ""
    collective: str = "all-reduce"
    #: One of each run that has it.
    collectives_shares: tuple[float, ...] = ()
    #: Share by which the slowest rank's own time exceeded that of the others, of each run, and its
    #: source: ``OWN_STEPS`` or ``CPU_SECONDS``.
    skew_of: str = ""
    skews: tuple[float, ...] = ()
    #: Medians over the runs, by bytes.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_sizes(self.all_reduce_gb_per_s)


def _check_sizes(rates: Mapping[str, float]) -> None:
    for size in rates:
        if not (size.isascii() and size.isdecimal()):
            raise UsageError(f"all_reduce_gb_per_s: {size!r} is not a number of bytes")


def own_seconds(
    runs: Sequence[RunSummary], device: DeviceKind, *, fewest: int = 1
) -> tuple[str, list[dict[int, float]]]:
    """Return the source of the ranks' own seconds, and these seconds for each run that has them.

    Not every run samples steps: where fewer than ``fewest`` did, the CPU seconds of all runs are
    used. Empty where both are unknown. The wall time of the window is of no use: in synchronous
    training ranks wait for each other.
    """
    sampled = [own for run in runs if (own := _own_steps(run))]
    if len(sampled) >= fewest:
        return OWN_STEPS, sampled
    spent = [cpu for run in runs if (cpu := _cpu_seconds(run))] if device == "cpu" else []
    if spent:
        return CPU_SECONDS, spent
    return (OWN_STEPS, sampled) if sampled else ("", [])


def _own_steps(run: RunSummary) -> dict[int, float]:
    sampled = run.scaling.ranks if run.scaling else ()
    own = {
        rank.rank: rank.own_seconds
        for rank in sampled
        if rank.own_seconds is not None and rank.own_seconds > 0
    }
    return own if len(own) > 1 and len(own) == len(run.ranks or sampled) else {}


def _cpu_seconds(run: RunSummary) -> dict[int, float]:
    cpu = {rank.rank: rank.cpu_seconds for rank in run.ranks if rank.cpu_seconds}
    return cpu if len(cpu) > 1 and len(cpu) == len(run.ranks) else {}


def skews(seconds: Mapping[int, float]) -> dict[int, float]:
    """Return the log of each rank's seconds over the median of the others'."""
    return {
        rank: math.log(own / statistics.median(s for r, s in seconds.items() if r != rank))
        for rank, own in seconds.items()
    }


def stored_scaling(runs: Sequence[RunSummary], device: DeviceKind) -> StoredScaling | None:
    """Return the scaling of ``runs`` as it is stored, to six digits; None if it is unknown."""
    samples = [run.scaling for run in runs if run.scaling is not None]
    if not samples:
        return None
    method = samples[0].method
    shares = [
        sample.collectives_share
        for sample in samples
        if sample.method == method and sample.collectives_share is not None
    ]
    basis, seconds = own_seconds(runs, device)
    return StoredScaling(
        method=method,
        collective=samples[0].collective,
        collectives_shares=rounded(shares),
        skew_of=basis,
        skews=rounded(math.expm1(max(skews(run_seconds).values())) for run_seconds in seconds),
        all_reduce_gb_per_s=_medians([sample.all_reduce_gb_per_s for sample in samples]),
    )


def _medians(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sizes = sorted({size for run in rates for size in run}, key=int)
    return {
        size: rounded([statistics.median(run[size] for run in rates if size in run)])[0]
        for size in sizes
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Iterations ``first_step`` to ``last_step`` of one rank, with their time: the raw data."""

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
    """The command of one node of several, started over a channel."""

    reach: Reach
    #: ``${MASTER_PORT}`` in it is filled in when the first node has reported a free port.
    argv: tuple[str, ...]
    env: Mapping[str, str]
    #: Files that the command needs in the run's folder, by name.
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchPlan:
    """A command with its environment and folders: it can be printed, and run."""

    case_id: str
    argv: tuple[str, ...]
    #: Variables that are set in addition to the environment of the pytest process.
    env: Mapping[str, str]
    #: Folder of this run: records of the ranks, ``output.log``, the launcher's own files.
    workdir: str
    timeout_s: float
    #: Folder in which the command starts; empty for ``workdir``.
    cwd: str = ""
    #: Folder that must not outlive the run: the launcher writes the whole environment there,
    #: with ``workerlog.*``, which are copied into ``output.log``. Empty if there is none.
    private_logs: str = ""
    #: Glob of the files below ``workdir`` with the output of single ranks; empty without such.
    rank_logs: str = ""
    #: Folder of the ranks' records, if several nodes share one; empty for ``workdir``.
    shared_records: str = ""
    #: The nodes of a launch over channels; then ``argv`` and ``env`` are what each is made of.
    nodes: tuple[NodePlan, ...] = ()
    #: Whether the command, started on the first node, starts the ranks of all.
    starts_all_nodes: bool = False

    @property
    def records(self) -> str:
        """Return the folder that every rank writes its records to."""
        return self.shared_records or self.workdir


class EndReason(str, Enum):
    """Why a launch ended."""

    #: The launcher came to its own end, whatever its exit code.
    EXITED = "exited"
    TIMEOUT = "timeout"
    #: A signal reached the supervisor.
    ASKED_TO_END = "asked-to-end"
    PYTEST_GONE = "pytest-gone"
    LOGS_TOO_LONG = "logs-too-long"
    NOT_STARTED = "not-started"
    #: Its ranks cannot be given turns, for a pair in lock-step: there can be no FIFOs.
    NO_TURNS = "no-turns"
    #: These three where the supervisor wrote no report.
    SUPERVISOR_DIED = "supervisor-died"
    SUPERVISOR_STOPPED = "supervisor-stopped"
    REPORT_NOT_WRITTEN = "report-not-written"
    #: These two where nodes, not ranks, caused the end: one cannot be reached or was lost, or
    #: one could not start the launcher.
    NODE_GONE = "node-gone"
    NODE_NOT_STARTED = "node-not-started"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """How a launch ended."""

    reason: EndReason
    #: What is known beside the reason, such as the error of a launcher that could not be started.
    message: str = ""
    #: Processes that SIGKILL did not end.
    unkilled: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value

    @property
    def is_by_itself(self) -> bool:
        """Whether the launcher came to its own end, and left nothing that cannot be ended."""
        return self.reason is EndReason.EXITED and not self.unkilled

    @property
    def nodes(self) -> str:
        """Words for the nodes that caused the end; empty where none did."""
        is_of_nodes = self.reason in {EndReason.NODE_GONE, EndReason.NODE_NOT_STARTED}
        return self.message if is_of_nodes else ""

    @property
    def detail(self) -> str:
        """Words for what is known beside the reason; empty where nothing is."""
        if not self.unkilled:
            return self.message
        pids = f"SIGKILL did not end pid {', '.join(map(str, self.unkilled))}"
        return f"{self.message}; {pids}" if self.message else pids


class TimedTurn(NamedTuple):
    """A turn by time of a launch; the one before has what its logs had at its begin."""

    #: Of the pair of turns: those of both launches followed each other. 0 is before the first.
    number: int
    #: Bytes of each log at its end, by the path below the run's folder.
    sizes: Mapping[str, int]
    #: No shorter than it lasted.
    seconds: float
    #: Whether all of it is within the measured windows of both launches.
    is_within: bool = True
    #: Whether what its records say counts.
    counts: bool = True


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
    #: Why it ended: the supervisor knows more than the exit code says.
    end: RunEnd
    timed_out: bool = False
    log: str = ""
    #: Processes of the launch on this host that were alive when it was ended; None if unknown.
    alive: frozenset[int] | None = None
    #: The same of a launch over channels, by ``host name, PID namespace`` of each node.
    alive_on: Mapping[str, frozenset[int]] = field(default_factory=dict)
    #: Processes of this host that the kernel killed for lack of memory during the launch.
    oom_kills: int = 0
    #: Why the output could not be kept; empty if it was.
    log_error: str = ""
    #: Its turns with the other arm's launch, where they were given by time.
    timed_turns: tuple[TimedTurn, ...] = ()


#: Code of the note on a run that drifted as the steps of the other arm, in turns with it, did.
MACHINE_DRIFTED: Final = "machine-drifted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something that is wrong with a measurement: a stable code, and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSummary:
    """What one rank did in the measured window of one run."""

    rank: int
    node: str
    seconds: float
    cpu_seconds: float | None
    #: None where the rank does not know it.
    peak_memory_bytes: int | None
    #: The loss of the first iteration, before the first update. The next ones may overshoot, by an
    #: amount that differs from run to run.
    loss_first: float | None
    #: The mean loss of the last tenth of the iterations, as a median can miss large ones where
    #: labels change at every step. None where a program reports no losses.
    loss_last: float | None
    device_id: str | None = None


#: Share of the window above which processes that make data serve steps in bursts.
_BURSTS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """What one run measured over its window. Rates are global, in the case's unit a second."""

    #: Work of all ranks over the time of the slowest.
    throughput: float
    #: Rates of the same window by other estimators, for comparison: ``mean_of_rates`` (the mean of
    #: each iteration's rate, seed 003), ``median_step`` (work over the median iteration).
    estimates: Mapping[str, float]
    #: Seconds of every iteration of the slowest rank, warm-up included.
    step_seconds: tuple[float, ...]
    ranks: tuple[RankSummary, ...]
    #: Largest of all ranks; None if unknown.
    peak_memory_bytes: int | None
    #: None if the log of a user's program does not show it.
    time_to_first_step_s: float | None
    #: Rates of fixed work, the slowest rank's; see ``worker/frameworks/torch/framework.py``.
    canary: Mapping[str, float]
    #: CPU seconds of all other programs over those that the host had; None if unknown.
    others_cpu_share: float | None
    #: ``step_seconds`` are in proportion to the times of iterations alone: a log has rates, and
    #: nothing says the work of an iteration.
    steps_are_relative: bool = False
    #: First of ``step_seconds`` of each turn, where the run was in lock-step with the other arm's.
    turns: tuple[int, ...] = ()
    #: Why this run does not count (other programs used the machine); empty if it does.
    disturbed: str = ""
    #: Share of the window that the slowest rank waited for data; None where it is unknown.
    data_wait_share: float | None = None
    #: Seconds that each of ``step_seconds`` waited for data; empty where that is unknown, or none
    #: waited.
    data_wait_seconds: tuple[float, ...] = ()
    problems: tuple[Problem, ...] = ()
    elapsed_s: float = 0.0
    log: str = ""
    #: Folder with the records of the run.
    folder: str = ""
    #: Figures that only some runs have: torch.compile, steal time, clocks of GPUs, FLOP/s.
    extras: Mapping[str, float] = field(default_factory=dict)
    #: A program's own metrics, the worst of its ranks, and built-in ones that the case gates.
    metrics: Mapping[str, Figure] = field(default_factory=dict)
    #: The canary of each node, the slowest of its ranks.
    canary_by_node: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: None for one rank, and where nothing was sampled after the window.
    scaling: Scaling | None = None

    FORMER: ClassVar[frozenset[str]] = frozenset({"machine_speed", "others_cpu_alone"})

    @property
    def disturbed_in_brief(self) -> str:
        """Why this run does not count, without the time that it took; empty if it does."""
        return self.disturbed.partition(" while ")[0]

    @property
    def waits_for_data(self) -> bool:
        """Whether its steps wait for data for so long that they come in bursts."""
        return (self.data_wait_share or 0.0) > _BURSTS

    @property
    def loss_fall(self) -> float | None:
        """The share by which the loss fell, median over ranks; below 0: it rose; None: unknown."""
        falls = [
            (rank.loss_first - rank.loss_last) / abs(rank.loss_first)
            for rank in self.ranks
            if rank.loss_first and rank.loss_last is not None
        ]
        falls = [fall for fall in falls if math.isfinite(fall)]
        return statistics.median(falls) if falls else None


class MeasuredRun(NamedTuple):
    """What one run measured, and what its ranks reported of themselves."""

    summary: RunSummary
    facts: RunFacts


class _SomeGpus(TypedDict, total=False):
    #: The driver's words where the GPU does not answer any more: it fell off the bus.
    lost: str
    #: Whether ranks see it, by the variables of their environment; left out if that is unknown.
    chosen: bool


class GpuFigures(_SomeGpus):
    """What the driver says of a GPU, or of a MIG slice; None for what it does not report."""

    #: Of the board, as the driver counts; slices have that of their board.
    index: int
    #: Such as ``GPU-8932f937-d72c-4106-c12f-20bd9faed9f6``, or ``MIG-...`` of a slice.
    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    temperature_c: int | None
    #: Bits of ``nvmlClocksEventReason*``.
    clock_reasons: int | None
    #: Share of the last moments that any kernel ran, of any process.
    utilisation: float | None
    #: Energy since the driver was loaded; None for a slice, whose board has others on it.
    energy_mj: int | None


class GpuRecord(GpuFigures):
    """A GPU at one moment, a line of ``gpus.jsonl``; None for what is unknown.

    ``measure/gpu_watch.py`` writes it, and ``measure/disturbance.py`` reads it.
    """

    #: Before a rank uses a GPU, or while the window is measured.
    when: Literal["before", "window"]
    time: float
    #: Processes that are not of the run: their number, their bytes, their share of the GPU's time.
    others: int | None
    others_memory_bytes: int | None
    others_utilisation: float | None


#: The numbers of a ``GpuRecord`` that a run's figures are made of.
GpuFigure = Literal[
    "sm_clock_mhz", "max_sm_clock_mhz", "temperature_c", "clock_reasons", "others_memory_bytes",
    "others_utilisation",
]  # fmt: skip
