"""What the pytest side and a rank send each other: arguments, files, progress.

They are separate processes, and may run under different interpreters. Each format is defined
once, here or in ``wire_records.py``, and both sides import it: mypy finds a name that only one
side changed. This module needs the standard library only, and imports little, as a user's program
imports it with its first mark. It must also load on Python 3.7, whose ``typing`` lacks what is
imported for types alone: a probe has to say which Python is too old.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import Final, Literal

    #: Records; the live counter; the stacks at SIGTERM; processes whose number was in use; the
    #: FIFO that gives it its turns.
    RankFile = Literal["jsonl", "progress", "stack", "conflict", "turn"]

#: Version of the records; the pytest side refuses another.
RECORDS_FORMAT: Final = 1
#: The live counter of a rank: iterations finished, and the wall-clock time of the last of them.
PROGRESS: Final = struct.Struct("<qd")
#: FIFO of a launch in which its ranks report to the referee of a pair in lock-step: lines of a
#: rank and its word, ``built``, after its warm-up ``ready`` with the seconds of a step, then
#: ``done`` after each turn; or ``left``, where it takes no more of them.
TURN_REPORTS: Final = "turns"
#: Seconds of a turn that are aimed at.
TURN_S: Final = 0.5
#: So many of them at least, ...
_FEWEST_TURNS: Final = 8
#: ... of so many iterations at least: on a GPU the first waits for its kernels to be launched.
_FEWEST_ITERATIONS: Final = 3
#: Prefixes of variables that change how libraries compute, communicate, or use memory.
LIBRARY_VARIABLES: Final = (
    "CUBLAS_", "CUDA_", "CUDNN_", "FLAGS_", "HOROVOD_AUTOTUNE", "HOROVOD_CACHE", "HOROVOD_CYCLE",
    "HOROVOD_FUSION", "HOROVOD_GLOO_TIMEOUT", "HOROVOD_HIERARCHICAL", "JAX_", "NCCL_",
    "NVIDIA_TF32_OVERRIDE", "PYTORCH_", "TF_CUDNN_", "TF_ENABLE_", "TF_GPU_", "TF_XLA_",
    "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_", "UCX_", "XLA_",
)  # fmt: skip
#: Those that set threads, kernels or memory of a CPU. Not all of TensorFlow's: ``TF_CONFIG`` has
#: the ports of a launch.
CPU_VARIABLES: Final = (
    "ATEN_", "DNNL_", "GLIBC_TUNABLES", "GOMP_", "KMP_", "LD_PRELOAD", "MALLOC_", "MKL_", "OMP_",
    "ONEDNN_", "OPENBLAS_", "TF_ENABLE_", "TF_NUM_", "TF_XLA_", "THP_MEM_", "XLA_",
)  # fmt: skip
#: Those that slow or instrument the interpreter of a rank, its allocator or libraries: coverage of
#: subprocesses, debug modes, debuggers, profilers, sanitizers, allocators, verbose libraries.
INTERPRETER_VARIABLES: Final = (
    "AMD_LOG_LEVEL", "AMD_SERIALIZE_", "ASAN_OPTIONS", "COVERAGE_CORE", "COVERAGE_PROCESS_",
    "COV_CORE_", "CPUPROFILE", "CUDA_INJECTION", "CUDA_LAUNCH_BLOCKING", "DD_PROFILING_",
    "DD_TRACE_ENABLED", "DEBUGPY_", "DNNL_VERBOSE", "GLIBC_TUNABLES", "GLOG_v", "HEAPCHECK",
    "HEAPPROFILE", "HIP_LAUNCH_BLOCKING", "HSA_TOOLS_LIB", "JAX_DEBUG_", "JAX_DISABLE_JIT",
    "JAX_LOG_COMPILES", "KINETO_", "LD_AUDIT", "LD_DEBUG", "LD_PRELOAD", "LD_PROFILE",
    "LINE_PROFILE", "LSAN_OPTIONS", "MALLOC_", "MIMALLOC_", "MKL_VERBOSE", "MSAN_OPTIONS",
    "NCCL_DEBUG", "NSYS_", "NVTX_INJECTION", "ONEDNN_VERBOSE", "PYDEVD_", "PYTHONASYNCIODEBUG",
    "PYTHONDEVMODE", "PYTHONDUMPREFS", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONPERFSUPPORT",
    "PYTHONPROFILEIMPORTTIME", "PYTHONTRACEMALLOC", "PYTHONVERBOSE", "PYTHON_CPU_COUNT",
    "PYTHON_GIL", "PYTHON_JIT", "PYTHON_PERF_JIT_SUPPORT", "PYTHON_TLBC", "ROCPROFILER_", "ROCP_",
    "SCALENE_", "TCMALLOC_", "TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE", "TORCH_CPP_LOG_LEVEL",
    "TORCH_DISTRIBUTED_DEBUG", "TORCH_LOGS", "TORCH_SHOW_CPP_STACKTRACES", "TSAN_OPTIONS",
    "UBSAN_OPTIONS", "VALGRIND_", "VIZTRACER_", "XLA_FLAGS", "_RJEM_MALLOC_",
)  # fmt: skip
#: Begins the line of a probe's output that holds its answer.
PROBE_MARK: Final = "dlperf-probe: "

#: Environment variable with the ``MarkSettings`` of a user's own program.
MARK_VARIABLE: Final = "DLPERF_MARK"
#: Environment variable with the trees whose imported files a rank reports (interleaved A/B).
TREES_VARIABLE: Final = "DLPERF_TREES"
#: Environment variable with a file that lists the repository's modules, one path a line.
MODULES_VARIABLE: Final = "DLPERF_MODULES"
#: Environment variable whose length is drawn for each launch of an arm (interleaved A/B).
PADDING_VARIABLE: Final = "DLPERF_PADDING"

# ---- Files of a rank


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
    #: Work of one replica in one iteration; None where the workload has to say it.
    work: int | None = None
    #: How the ranks copy, shard and split the model, as in ``fsdp2-tp2``; empty: not said.
    parallel: str = ""
    #: Devices that this process drives.
    devices_per_process: int = 1
    #: What is counted, where the workload has to say its work; else empty.
    uncounted_unit: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds that the warm-up takes at least.
    warmup_s: float = 0.0
    #: How many iterations the loss is checked over, where the window is longer than asked for.
    checked_iterations: int | None = None
    #: Folder of real data (``--dlperf-data``).
    data: str | None = None
    #: Whether the rank samples collectives after the measured window.
    scaling: bool = False
    #: Share by which each measured step is made longer on purpose.
    inject: float = 0.0
    #: Whether the measured window is run in turns with the other arm of a pair.
    turns: bool = False
    #: Whether the rank profiles steps after the measured window, to explain a change of speed.
    profile: bool = False

    def flags(self) -> tuple[str, ...]:
        """Return the arguments as words of a command; those at their default are left out."""
        values = ((argument, getattr(self, argument.name)) for argument in fields(self))
        return tuple(
            _flag(argument.name, value)
            for argument, value in values
            if value != _default(argument)
        )

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
    "int | None": int,
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


def _default(argument: Field[Any]) -> Any:
    """Return the default of a field; ``MISSING`` for a required one."""
    return argument.default if argument.default_factory is MISSING else argument.default_factory()


class MarkSettings(NamedTuple):
    """What the marks in a user's own program need to know of its case."""

    #: Folder of the run's records.
    records: str
    iterations: int
    warmup: int
    #: Work of one replica in an iteration, unless the mark says otherwise; None: each mark says
    #: it.
    work: float | None
    world_size: int
    #: Environment variables of the rank, the local rank and the world size.
    place: tuple[str, str, str]
    framework: str
    #: What is counted.
    unit: str = ""
    #: Whether the marker says the work; else it is the batch size.
    is_work_declared: bool = False
    #: Number of devices that share a replica's work.
    split: int = 1
    #: Devices that each process drives.
    devices_per_process: int = 1
    precision: str = "fp32"
    on_gpu: bool = False
    #: Of each device of the case.
    batch_size_per_device: int = 0
    #: Whether the measured window is run in turns with the other arm of a pair.
    turns: bool = False
    #: Steps after the window that are profiled, and further ones that py-spy samples; 0 for none.
    profiled_steps: int = 0
    sampled_steps: int = 0

    def to_json(self) -> str:
        """Return the value of ``MARK_VARIABLE``."""
        return json.dumps(self._asdict())

    @classmethod
    def of_json(cls, text: str) -> MarkSettings:
        """Return the settings that the value of ``MARK_VARIABLE`` holds."""
        values = json.loads(text)
        return cls(**{**values, "place": tuple(values["place"])})


def iterations_of_a_turn(iterations: int, step_s: float, turn_s: float = TURN_S) -> int:
    """Return how many of a window's iterations are a turn, for steps of ``step_s`` seconds."""
    by_time = round(turn_s / step_s) if step_s > 0 else iterations
    by_count = math.ceil(iterations / _FEWEST_TURNS)
    return max(1, min(iterations, max(_FEWEST_ITERATIONS, min(by_time, by_count))))
