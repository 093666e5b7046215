"""Records of a rank, and the answer of a probe: types of what is stored as JSON.

A record is a line of JSON with its ``rank`` and, as ``record``, its kind. The worker writes it and
``measure/records.py`` reads it; both import these types, so that mypy finds a name that only one
side changed. Times are those of the wall clock, in seconds since the
epoch. Standard library only.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from pytest_dlperf.core.wire_model import (
    ArithmeticRecord,
    ChecksumRecord,
    CompileRecord,
    ModelRecord,
)
from pytest_dlperf.core.wire_profile import ProfileRecord


class StartRecord(TypedDict):
    """The first record: which process this is, and where."""

    format: int
    local_rank: int
    #: The number of ranks that the launcher started.
    world_size: int
    pid: int
    #: Says which container the process number belongs to; empty off Linux.
    pid_namespace: str
    node: str
    #: Says which machine this is, until its next start; None off Linux.
    boot: str | None
    cores: int | None
    python: str
    time: float


class MomentRecord(TypedDict):
    """``built``, ``first_step`` and ``end``: nothing but when they were reached."""

    time: float


class _AnyFramework(TypedDict):
    #: That of the case; ``program`` for a program that imported none.
    framework: str
    framework_version: str | None
    #: UUID of the GPU, with or without ``GPU-``; None if unknown, and on a CPU.
    device_id: str | None


class FrameworkRecord(_AnyFramework, total=False):
    """Versions, device, and defaults of the arithmetic; marks write the first three alone."""

    cuda: str | None
    rocm: str | None
    cudnn: str | int | None
    nccl: str | None
    #: What carries the collectives.
    backend: str | None
    #: Horovod's version and operations.
    horovod: str
    device: str
    device_name: str | None
    #: The clock that times laps: ``device events`` or ``host clock``.
    timing: str
    #: What the framework does with TF32 unless asked; its form depends on the framework.
    tf32_default: Any
    threads: int
    inter_op_threads: int


class CanaryRates(TypedDict, total=False):
    """Rates of fixed work on a rank's device; None for an all-reduce of one rank."""

    matmul_gflop_per_s: float
    copy_gb_per_s: float
    all_reduce_gb_per_s: float | None
    #: Those of a GPU, of many launches.
    sustained_matmul_gflop_per_s: float
    sustained_copy_gb_per_s: float
    sustained_all_reduce_gb_per_s: float | None
    #: That of a user's own program on CPUs: one core of the host.
    hash_gb_per_s: float


class CanaryRecord(CanaryRates):
    """The canary, ``before`` and ``after`` the measured window."""

    when: Literal["before", "after"]
    time: float


class SpanRecord(TypedDict):
    """The seconds and the work of some iterations of one rank: the only raw datum."""

    first_step: int
    last_step: int
    seconds: float
    work: float
    cpu_seconds: float | None
    #: None if the rank reads no data.
    data_wait_seconds: float | None


class _AnyWindow(TypedDict):
    seconds: float
    own_cpu_seconds: float
    launcher_cpu_seconds: float
    host_busy_seconds: float | None
    host_steal_seconds: float | None
    #: Share by which each measured step was made longer on purpose.
    inject: float


class WindowRecord(_AnyWindow, total=False):
    """The measured window: CPU seconds in it, those of the whole host None off Linux."""

    #: Its end; marks leave it out.
    time: float
    #: ``instructions`` and ``cycles`` in user space, each where the kernel counted it.
    counted: dict[str, float]
    #: Iterations at whose end a tenth of them was still to be done by the device.
    steps_ahead: int
    #: Whether a step returned its loss as a number, or in the host's memory.
    host_losses: bool
    #: Wall seconds of the phases between marked steps, by name: in ``seconds``, and in no span.
    left_out: dict[str, float]
    #: What of ``own_cpu_seconds`` they took.
    left_out_cpu_seconds: float


#: Share of the steps below which the host did not run ahead of the device.
_AHEAD = 0.1


def runs_ahead_seldom(ahead: int, steps: int) -> bool:
    """Return whether the host waited for its device in nearly every one of ``steps``."""
    return ahead < _AHEAD * steps


class WaitsRecord(TypedDict, total=False):
    """What it costs that the host waits for its GPU in each step; or a problem."""

    #: Why it could not be measured; then nothing else is in the record.
    problem: str
    #: Whether the framework saw waits in the midst of a step; absent where none of it is queued
    #: at its end.
    within: bool
    #: The median measured step, and one whose kernels were queued before the GPU was free.
    step_seconds: float
    queued_seconds: float


class TurnsRecord(TypedDict):
    """The turns of a run in lock-step with the other arm of its pair."""

    #: The first iteration of each.
    first_steps: list[int]
    #: How long the rank waited for its turns, and CPU seconds of its processes meanwhile.
    waited_seconds: float
    waited_cpu_seconds: float


class MetricValue(TypedDict):
    """A metric of a program's own: the mean of its calls."""

    value: float
    calls: int
    unit: str
    better: str


class MetricsRecord(TypedDict):
    """What a program reported beside its losses, by name."""

    values: dict[str, MetricValue]


class LossRecord(TypedDict):
    """The loss of every iteration; one that is not finite as text."""

    values: list[float | str]


class _AnyMemory(TypedDict):
    bytes: int
    kind: Literal["gpu-allocated", "resident-set"]


class MemoryRecord(_AnyMemory, total=False):
    """The peak of memory during the window, in bytes."""

    reserved_bytes: int


class DataNotes(TypedDict, total=False):
    """What is known of the real data that a rank read."""

    #: Processes or threads that read for the rank.
    workers: int
    samples: int
    #: What decodes images on the device, and its version; left out where the workers decode.
    decoder: str
    #: The samples of the first batch.
    first_samples: list[int]
    #: Batches that the readers gave before the training, while nothing else ran, and how long
    #: that took from the first of them on.
    alone_batches: int
    alone_seconds: float
    #: Batches that the training took in an iteration, in the mean.
    batches_per_iteration: float


class DataRecord(DataNotes):
    """What a rank trained on."""

    kind: Literal["real", "synthetic"]


class CollectivesRecord(TypedDict, total=False):
    """Medians of the steps that were sampled after the window, in seconds; or a problem."""

    #: Why they could not be sampled; then nothing else is in the record.
    problem: str
    method: str
    iterations: int
    step_seconds: float
    #: A step without collectives, and what the collectives take of one; None if unknown.
    own_seconds: float | None
    collective_seconds: float | None
    #: ``all-reduce``, or ``collectives`` if the step calls others as well.
    collective: str


class AllReduceRecord(TypedDict):
    """The rate of an all-reduce by the bytes of its message."""

    gb_per_s: dict[str, float]
    time: float


class SettingsRecord(TypedDict):
    """How a rank was set up, read after the measured window; secrets are masked."""

    #: Variables of the environment that configure libraries.
    variables: dict[str, str]
    #: How frameworks choose their kernels, by the name of the flag: ``on``, ``off`` or a word.
    flags: dict[str, str]
    #: Version of every installed package.
    packages: dict[str, str]


class LibrariesRecord(TypedDict):
    """The libraries that train, or hold numbers, which a user's program had imported."""

    imported: list[str]


class ImportedCopy(TypedDict):
    """A package from outside the trees that the repository has as well."""

    #: Python files that were imported of it.
    files: int
    #: Whether compiled modules of it were imported.
    compiled: bool
    #: Package or module in the repository -> how many of the files it has.
    roots: dict[str, int]


class ImportsRecord(TypedDict):
    """What a rank imported, for an interleaved A/B."""

    #: File in a tree -> its SHA-256.
    files: dict[str, str]
    #: Path of a package or module -> what was imported of it.
    copies: dict[str, ImportedCopy]
    #: Files of modules in no tree, neither installed nor generated: no commit has them.
    outside: list[str]
    #: Files in a tree that were opened for reading.
    read: list[str]
    #: Whether the rank started processes, whose imports are unknown, or read still more files.
    started_processes: bool


class FailureRecord(TypedDict):
    """The error that ended a rank; the code is stable, the message is for people."""

    code: str
    message: str
    traceback: str
    time: float


class RecordsByKind(TypedDict, total=False):
    """The records that a rank writes once, each under the name of its kind."""

    start: StartRecord
    framework: FrameworkRecord
    built: MomentRecord
    first_step: MomentRecord
    window: WindowRecord
    turns: TurnsRecord
    compile: CompileRecord
    loss: LossRecord
    metrics: MetricsRecord
    model: ModelRecord
    memory: MemoryRecord
    arithmetic: ArithmeticRecord
    data: DataRecord
    checksum: ChecksumRecord
    collectives: CollectivesRecord
    all_reduce: AllReduceRecord
    waits: WaitsRecord
    profile: ProfileRecord
    settings: SettingsRecord
    libraries: LibrariesRecord
    imports: ImportsRecord
    failure: FailureRecord
    end: MomentRecord


class WrittenRecords(RecordsByKind, total=False):
    """As a rank writes them: the canary comes twice. Spans are written together."""

    canary: CanaryRecord


#: The kinds of ``RecordsByKind``.
RecordKind = Literal[
    "start", "framework", "built", "first_step", "window", "turns", "compile", "loss", "metrics",
    "model", "memory", "arithmetic", "data", "checksum", "collectives", "all_reduce", "waits",
    "profile", "settings", "libraries", "imports", "failure", "end",
]  # fmt: skip


class RunFacts(TypedDict, total=False):
    """What the ranks of a run reported of themselves; a log alone says the unit at most.

    The records are those of rank 0; ``imports`` has what any rank imported.
    """

    start: StartRecord
    framework: FrameworkRecord
    #: Not of a user's own program, whose model is not looked into.
    model: ModelRecord
    #: Not of one either.
    arithmetic: ArithmeticRecord
    data: DataRecord
    settings: SettingsRecord
    imports: ImportsRecord
    #: What a user's own program counts.
    unit: str
    #: Work of a rank in each measured iteration, in the mean of all; not where their sum varies.
    work: float


class ProbeAnswer(TypedDict, total=False):
    """What a probe found where ranks would start; unknown values are None."""

    python: str
    executable: str
    os: str
    image: str | None
    node: str
    cores: int | None
    #: From here on only if the probe was asked for a framework.
    framework: str
    #: None if it is not installed, or cannot be imported.
    framework_version: str | None
    #: Why it cannot be imported; empty otherwise.
    problem: str
    cuda: str | None
    cudnn: str | int | None
    nccl: str | None
    #: TensorFlow's Keras.
    keras: str
    #: How many GPUs the framework sees.
    gpus: int
