"""What the pytest side and a rank send each other: arguments, records, progress, a probe's answer.

They are separate processes, and may run under different interpreters. Each format is defined
here once, and both sides import it: mypy finds a name that only one side changed. This module
needs the standard library only, and a user's program imports it with its first mark, so it
imports little. It must also load on Python 3.8: a probe has to say which Python is too old.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypedDict

#: Version of the records; the pytest side refuses another.
RECORDS_FORMAT: Final = 1
#: The live counter of a rank: iterations finished, and the wall-clock time of the last of them.
PROGRESS: Final = struct.Struct("<qd")
#: Begins the line of a probe's output that holds its answer.
PROBE_MARK: Final = "dlperf-probe: "

#: Environment variable with the ``MarkSettings`` of a user's own program.
MARK_VARIABLE: Final = "DLPERF_MARK"
#: Environment variable with the trees whose imported files a rank reports (interleaved A/B).
TREES_VARIABLE: Final = "DLPERF_TREES"
#: Environment variable with a file that lists the repository's modules, one path a line.
MODULES_VARIABLE: Final = "DLPERF_MODULES"

# ---- Files of a rank

#: Records; the live counter; the stacks at SIGTERM; processes that had a number already in use.
RankFile = Literal["jsonl", "progress", "stack", "conflict"]


def rank_file(rank: int, kind: RankFile) -> str:
    """Return the name of a rank's file in the folder of the run's records."""
    return f"rank{rank:05d}.{kind}"


def rank_files(kind: RankFile) -> str:
    """Return the glob of all ranks' files of one kind."""
    return f"rank*.{kind}"


def rank_of_file(name: str) -> int:
    """Return the rank that a file of a ``rank_file`` name belongs to."""
    return int(name.partition(".")[0][len("rank") :])


# ---- Arguments of a rank


# Without ``kw_only``, which Python 3.10 brought: see the top of this module.
@dataclass(frozen=True)
class RankArguments:
    """The command line of a rank: each field is the flag of the same name, with hyphens."""

    framework: str
    workload: str
    precision: str
    device: str
    size: str
    #: What is checked of the loss: ``falls`` or ``finite``.
    loss: str
    batch_size_per_device: int
    world_size: int
    iterations: int
    warmup: int
    threads_per_rank: int
    collective_timeout_s: float
    seed: int
    #: Folder of the run's records.
    records: str
    #: Environment variables of the rank, the local rank and the world size. The launcher names
    #: them: where one launcher runs inside another's job, several sets are in the environment.
    place_from: tuple[str, str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Folder of real data (``--dlperf-data``).
    data: str | None = None
    #: Whether the rank samples collectives after the measured window.
    scaling: bool = False
    #: Share by which each measured step is made longer on purpose.
    inject: float = 0.0

    def flags(self) -> tuple[str, ...]:
        """Return the arguments as words of a command; those at their default are left out."""
        values = ((one, getattr(self, one.name)) for one in fields(self))
        return tuple(_flag(one.name, value) for one, value in values if value != _default(one))

    @classmethod
    def of_flags(cls, argv: Sequence[str] | None = None) -> RankArguments:
        """Return the arguments that ``argv`` says; exit with a usage message if it is wrong."""
        import argparse  # marks in a user's program do not need it

        parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker")
        for one in fields(cls):
            name, default = _flag_name(one.name), _default(one)
            if one.type == "bool":
                parser.add_argument(name, action="store_true")
            elif default is MISSING:
                parser.add_argument(name, type=_READERS[str(one.type)], required=True)
            else:
                parser.add_argument(name, type=_READERS[str(one.type)], default=default)
        return cls(**vars(parser.parse_args(argv)))


def _triple(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


#: How the text of a flag is read, by the annotation of its field.
_READERS: Final[Mapping[str, Any]] = {
    "str": str,
    "str | None": str,
    "int": int,
    "float": float,
    "Mapping[str, Any]": json.loads,
    "tuple[str, str, str]": _triple,
}


def _flag(name: str, value: Any) -> str:
    if value is True:
        return _flag_name(name)
    if isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, Mapping):
        text = json.dumps(dict(value))
    elif isinstance(value, tuple):
        text = ",".join(value)
    else:
        text = str(value)
    return f"{_flag_name(name)}={text}"


def _flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _default(one: Field[Any]) -> Any:
    """Return the default of a field; ``MISSING`` for a required one."""
    return one.default if one.default_factory is MISSING else one.default_factory()


class MarkSettings(NamedTuple):
    """What the marks in a user's own program need to know of its case."""

    #: Folder of the run's records.
    records: str
    iterations: int
    warmup: int
    #: Work of one rank in one iteration, unless the mark says otherwise.
    work: float
    world_size: int
    #: Environment variables of the rank, the local rank and the world size.
    place: tuple[str, str, str]
    framework: str

    def to_json(self) -> str:
        """Return the value of ``MARK_VARIABLE``."""
        return json.dumps(self._asdict())

    @classmethod
    def of_json(cls, text: str) -> MarkSettings:
        """Return the settings that the value of ``MARK_VARIABLE`` holds."""
        values = json.loads(text)
        return cls(**{**values, "place": tuple(values["place"])})


# ---- Records of a rank: lines of JSON, each with its ``rank`` and, as ``record``, its kind.
# The times are those of the wall clock, in seconds since the epoch.


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
    #: ``torch``, ``paddle`` or ``tensorflow``; ``program`` for a program that imported none.
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


class CanaryRates(TypedDict):
    """Rates of fixed work on a rank's device; None for an all-reduce of one rank."""

    matmul_gflop_per_s: float
    copy_gb_per_s: float
    all_reduce_gb_per_s: float | None


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


class CompileRecord(TypedDict):
    """What torch.compile did: in all, and within the measured window."""

    frames: int
    seconds: float
    frames_in_window: int
    seconds_in_window: float


class LossRecord(TypedDict):
    """The loss of every iteration; one that is not finite as text."""

    values: list[float | str]


class ModelRecord(TypedDict):
    """What was seen of the model in the first two iterations."""

    input_shapes: list[list[int]] | None
    #: Floating-point operations of the matrix work by the dtype that did it.
    flops_by_dtype: dict[str, int]
    parameter_count: int


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
    #: The samples of the first batch.
    first_samples: list[int]


class DataRecord(DataNotes):
    """What a rank trained on."""

    kind: Literal["real", "synthetic"]


class Checksum(TypedDict):
    """The digest of the replicated parameters, and the number of their tensors."""

    digest: str
    tensors: int


class ChecksumRecord(TypedDict):
    """The checksum after the training; None if no replicated parameters were declared."""

    value: Checksum | None


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
    #: Whether the rank started processes, whose imports are unknown.
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
    compile: CompileRecord
    loss: LossRecord
    model: ModelRecord
    memory: MemoryRecord
    data: DataRecord
    checksum: ChecksumRecord
    collectives: CollectivesRecord
    all_reduce: AllReduceRecord
    libraries: LibrariesRecord
    imports: ImportsRecord
    failure: FailureRecord
    end: MomentRecord


class WrittenRecords(RecordsByKind, total=False):
    """As a rank writes them: the canary comes twice. Spans are written together."""

    canary: CanaryRecord


#: The kinds of ``RecordsByKind``.
RecordKind = Literal[
    "start", "framework", "built", "first_step", "window", "compile", "loss", "model", "memory",
    "data", "checksum", "collectives", "all_reduce", "libraries", "imports", "failure", "end",
]  # fmt: skip


class RunFacts(TypedDict, total=False):
    """What the ranks of a run reported of themselves; a log alone says the unit at most.

    The records are those of rank 0; ``imports`` has what any rank imported.
    """

    start: StartRecord
    framework: FrameworkRecord
    #: Not of a user's own program, whose model is not looked into.
    model: ModelRecord
    data: DataRecord
    imports: ImportsRecord
    #: What a user's own program counts.
    unit: str


# ---- A probe's answer


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
