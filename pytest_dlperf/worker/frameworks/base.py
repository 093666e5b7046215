"""The interface of a framework in a rank, and what several frameworks do alike."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from pytest_dlperf.core.wire_model import ArithmeticRecord, Checksum, ModelRecord
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CollectivesRecord,
    FrameworkRecord,
    MemoryRecord,
)
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.job import Job


class Timer(Protocol):
    """Times laps on the device's own clock, without waiting for it."""

    def start(self) -> None:
        """Begin a lap here; earlier time belongs to no lap."""
        ...

    def lap(self) -> None:
        """End the lap, and begin the next."""
        ...

    def done(self) -> int:
        """Return how many laps the device has finished; waits for nothing."""
        ...

    def finish(self, each: Callable[[int], None]) -> None:
        """Wait for every lap in turn; ``each`` is given how many are finished."""
        ...

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap; waits for the device."""
        ...


class EventTimer:
    """Laps on a GPU's clock: events in its stream, read when all is done."""

    def __init__(self, record: Callable[[], Any], wait: Callable[[], object]) -> None:
        """``record`` puts an event into the stream and returns it, ``wait`` waits for the GPU."""
        self._record, self._wait = record, wait
        self._laps: list[tuple[Any, Any, float]] = []
        self._done = 0

    def start(self) -> None:
        """Begin a lap here."""
        self._event, self._cpu_s = self._record(), time.process_time()

    def lap(self) -> None:
        """End the lap, and begin the next."""
        event, cpu_s = self._record(), time.process_time()
        self._laps.append((self._event, event, cpu_s - self._cpu_s))
        self._event, self._cpu_s = event, cpu_s

    def done(self) -> int:
        """Return how many laps the GPU has finished: the host may be far ahead of it."""
        while self._done < len(self._laps) and self._laps[self._done][1].query():
            self._done += 1
        return self._done

    def finish(self, each: Callable[[int], None]) -> None:
        """Wait for every lap in turn."""
        for _, end, _ in self._laps[self._done :]:
            end.synchronize()
            self._done += 1
            each(self._done)
        self._wait()

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap; waits for the GPU."""
        self._wait()
        return [(begin.elapsed_time(end) / 1000, cpu_s) for begin, end, cpu_s in self._laps]


def no_loss(returned: object) -> WorkerFailure:
    """Return the failure of a step that returned something else than its loss."""
    return WorkerFailure(
        "step-returned-no-loss",
        f"step() returned {type(returned).__name__}, not the loss of the iteration; return it as "
        "a tensor of one element",
    )


def checksum_of(tensors: Iterable[bytes]) -> Checksum:
    """Return the digest of the bytes of tensors, in their order, and how many there are."""
    digest, count = hashlib.blake2b(digest_size=16), 0
    for data in tensors:
        digest.update(data)
        count += 1
    return {"digest": digest.hexdigest(), "tensors": count}


def gpu_of(local_rank: int, visible: int) -> int | None:
    """Return the number of a rank's GPU among the ``visible`` ones; None if it has none.

    Slurm and MPI can let a rank see its own GPU only, which then has number 0 in each of them.
    """
    if local_rank < visible:
        return local_rank
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return 0 if visible == 1 and shown and "," not in shown else None


def named_gpu(index: int) -> str | None:
    """Return the UUID of a visible GPU where ``CUDA_VISIBLE_DEVICES`` lists UUIDs; else None."""
    shown = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    if index < len(shown) and shown[index].startswith(("GPU-", "MIG-")):
        return shown[index]
    return None


#: What a user may set so that flags for TF32 mean something else.
_OVERRIDES: Final = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


def tf32_overrides() -> dict[str, str]:
    """Return the environment's variables that override flags for TF32."""
    return {name: os.environ[name] for name in _OVERRIDES if name in os.environ}


class Framework(Protocol):
    """One framework in one rank; ``worker/__main__.py`` makes it, which joins the job."""

    @property
    def job(self) -> Job:
        """Return the job, which the workload is given."""
        ...

    def facts(self) -> FrameworkRecord:
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
        """Return a step's loss in a form that is cheap to keep.

        Raises ``WorkerFailure`` if the step returned no loss.
        """
        ...

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        ...

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note, while open, the shapes of the first call's inputs."""
        ...

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count, while open, floating-point operations by the dtype that they use.

        It may swallow what a step raises while it is looked at; the step is then done again.
        """
        ...

    def model(self) -> ModelRecord:
        """Return what was watched, and the number of parameters."""
        ...

    def arithmetic(self) -> ArithmeticRecord:
        """Return how float32 work is done now, with the flags that the workload left."""
        ...

    def checksum(self) -> Checksum | None:
        """Return the checksum of the replicated parameters; None if none were declared."""
        ...

    def canary(self) -> CanaryRates:
        """Return the rates of fixed work on this rank's device."""
        ...

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        ...

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that reduces a float32 message; ``synchronise`` waits for it."""
        ...

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> CollectivesRecord:
        """Return the time of collectives in a few more steps; for several ranks only.

        ``folder`` is that of the run. Afterwards the parameters mean nothing.
        """
        ...

    def profile(self, step: Callable[[], Any], folder: Path) -> ProfileRecord:
        """Return what the framework's profiler shows of a few more steps, or why nothing.

        ``folder`` is that of the run. All ranks call it at the same time.
        """
        ...

    def release_memory(self) -> None:
        """Give memory back that the training does not use; it takes what it needs again."""
        ...

    def reset_peak_memory(self) -> None:
        """Begin to look for the peak."""
        ...

    def peak_memory(self) -> MemoryRecord:
        """Return the peak of memory since then."""
        ...

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Return a function that makes a step longer by ``share`` of it, on the device.

        It is given the step's seconds as seen by the host; ``typical_s`` is a step's
        duration in the warm-up, for devices whose steps the host does not see.
        """
        ...

    def waits_within(self, step: Callable[[], Any]) -> bool | None:
        """Do a step; return whether the host waits for its device within it, None: not known."""
        ...

    def close(self) -> None:
        """Leave the job."""
        ...


class PeakWithoutCanary:
    """Peaks of devices that cannot be reset, without what the canary took for itself."""

    def __init__(self, read: Callable[[], Sequence[int]]) -> None:
        """``read`` returns the peak of each device in bytes, since the process began."""
        self._read = read
        #: Of each device, before the canary and after it.
        self._around: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def canary(self) -> Iterator[None]:
        """Take what the peaks rise by, while open, for the canary's."""
        before = self._read()
        yield
        self._around = list(zip(before, self._read(), strict=True))

    def largest_bytes(self) -> int:
        """Return the largest peak of a device; where the canary's is above it, that before it."""
        now = self._read()
        around = self._around or [(peak, 0) for peak in now]
        return max(
            before if peak == after else peak
            for peak, (before, after) in zip(now, around, strict=True)
        )


class Uncounted(dict[str, list[str]]):
    """Operators whose operations are not known, with the floating-point dtypes they were given."""

    def note(self, name: str, dtypes: Iterable[str]) -> None:
        """Note that an operator ran with tensors of ``dtypes``."""
        floating = {
            "float8" if "float8" in dtype else dtype for dtype in dtypes if "float" in dtype
        }
        self[name] = sorted(floating.union(self.get(name, ())))

    def words(self) -> str:
        """Return the operators and their dtypes in words."""
        return ", ".join(
            f"{name} ({', '.join(dtypes)})" if dtypes else name for name, dtypes in self.items()
        )

    def update_all(self, uncounted: Mapping[str, Iterable[str]]) -> None:
        """Note what was noted elsewhere."""
        for name, dtypes in uncounted.items():
            self.note(name, dtypes)


class FirstCall:
    """While open, notes the tensors of the first layer call, and the layer.

    That is the outermost layer, positional and keyword tensors alike; the hooks of layers would
    not see the keyword ones.
    """

    def __init__(
        self,
        kind: Any,
        shapes_of: Callable[[Sequence[Any]], list[list[int]]],
        is_traced: Callable[[], bool] | None = None,
    ) -> None:
        """``kind`` is the framework's class of layers, ``shapes_of`` finds shapes in arguments.

        A call for which ``is_traced`` is true belongs to a compiler, and is not noted.
        """
        self.shapes: list[list[int]] | None = None
        self.layers: list[Any] = []
        #: Thread of the call; None before it.
        self.thread: int | None = None
        self._kind, self._shapes_of = kind, shapes_of
        self._original, self._is_traced = kind.__call__, is_traced

    def __enter__(self) -> None:
        original, is_traced = self._original, self._is_traced

        def spy(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced is not None and is_traced():
                return original(layer, *args, **kwargs)
            self._kind.__call__ = self._original
            try:
                self.shapes = self._shapes_of([*args, *kwargs.values()])
            except Exception:  # noqa: BLE001  # of values that are not known here
                self.shapes = None
            self.layers, self.thread = [layer], threading.get_ident()
            return self._original(layer, *args, **kwargs)

        self._kind.__call__ = spy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kind.__call__ = self._original


def shapes_in(values: Sequence[Any], tensor: Any) -> list[list[int]]:
    """Return the shapes of the values of type ``tensor``, also of those in dicts and lists.

    A dimension without one size, as that of a jagged tensor, is -1.
    """
    shapes: list[list[int]] = []
    for value in values:
        if isinstance(value, tensor):
            shapes.append([size if isinstance(size, int) else -1 for size in value.shape])
        elif isinstance(value, dict):
            shapes += shapes_in(list(value.values()), tensor)
        elif isinstance(value, list | tuple):
            shapes += shapes_in(value, tensor)
    return shapes
