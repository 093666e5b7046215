"""What the loop needs of a framework."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from pytest_dlperf.worker.job import Job


def nccl_version(code: int) -> str | None:
    """Return ``2.18.5`` for 21805, and ``2.8.4`` for 2804, as nccl.h has it; None for 0."""
    if code <= 0:
        return None
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nccl_of_paddle(version: Any) -> str | None:
    """Return what ``paddle.version`` tells; before Paddle 3 it has no ``nccl``: then None."""
    tell = getattr(version, "nccl", None)
    told = str(tell()) if tell is not None else ""
    return nccl_version(int(told)) if told.isdecimal() else None


def horovod_operations(hvd: Any) -> dict[str, bool]:
    """Return by name what this Horovod was built with; ``hvd`` is a framework's module of it."""
    return {
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "cuda": bool(hvd.cuda_built()),
        "rocm": bool(hvd.rocm_built()),
    }


class Timer(Protocol):
    """Times laps on the device's own clock, without waiting for it."""

    def start(self) -> None:
        """Begin a lap here; what lies before belongs to none."""
        ...

    def lap(self) -> None:
        """End the lap, and begin the next."""
        ...

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap; waits for the device."""
        ...


class Framework(Protocol):
    """One framework in one rank; made by ``frameworks.start``, which joins the job."""

    @property
    def job(self) -> Job:
        """Return what the workload is given."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return versions, device, and arithmetic defaults, for the record."""
        ...

    def timer(self) -> Timer:
        """Return a new timer."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has done all that was asked of it."""
        ...

    def barrier(self) -> None:
        """Wait for all ranks."""
        ...

    def keep_loss(self, loss: Any) -> Any:
        """Return what is cheap to keep of a step's loss; raise ``WorkerFailure`` if it is none."""
        ...

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        ...

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note, while open, the shapes of the first call's inputs."""
        ...

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count, while open, floating-point operations by the dtype that they use."""
        ...

    def model(self) -> dict[str, Any]:
        """Return what was watched: ``input_shapes``, ``flops_by_dtype``, ``parameter_count``."""
        ...

    def checksum(self) -> dict[str, Any] | None:
        """Return ``digest`` and ``tensors`` of the replicated parameters; None if undeclared."""
        ...

    def canary(self) -> dict[str, float | None]:
        """Return rates of fixed work on this rank's device: see ``torch_.py`` for the keys."""
        ...

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        ...

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that reduces a float32 message over the ranks, and waits for it."""
        ...

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> dict[str, Any]:
        """Return what a few more steps tell of the time in collectives; of several ranks.

        ``method`` with ``step_seconds``, ``own_seconds`` and ``collective_seconds`` of a step,
        None where unknown. ``folder`` is the run's own. Parameters mean nothing afterwards.
        """
        ...

    def reset_peak_memory(self) -> None:
        """Begin to look for the peak."""
        ...

    def peak_memory(self) -> dict[str, Any]:
        """Return ``bytes`` and ``kind`` of the peak since then."""
        ...

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Return a function that makes a step longer by ``share`` of it, on the device.

        It is given the step's seconds as seen by the host; ``typical_s`` is a step's
        duration in the warm-up, for devices whose steps the host does not see.
        """
        ...

    def close(self) -> None:
        """Leave the job."""
        ...
