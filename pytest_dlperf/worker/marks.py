"""Records the marks of a program that is not the worker's: the same records, as far as known."""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pytest_dlperf.worker import compiling, host, stack
from pytest_dlperf.worker.frameworks import on_cpu
from pytest_dlperf.worker.imports import imported
from pytest_dlperf.worker.records import (
    RECORDS_FORMAT,
    ProgressCounter,
    RecordWriter,
    write_conflict,
)


class Device(Protocol):
    """What marks need of a device."""

    def synchronise(self) -> None:
        """Wait until all work given to it is done."""
        ...

    def reset_peak_memory(self) -> None:
        """Begin to look for the peak, where that can be begun anew."""
        ...

    def peak_memory(self) -> dict[str, Any]:
        """Return the peak in ``bytes``, and its ``kind``."""
        ...


class _Cpu:
    def synchronise(self) -> None:
        pass

    def reset_peak_memory(self) -> None:
        pass

    def peak_memory(self) -> dict[str, Any]:
        return {"bytes": on_cpu.peak_resident_set_bytes(), "kind": "resident-set"}


class _Cuda:
    """A GPU by ``torch.cuda`` or ``paddle.device.cuda``."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def synchronise(self) -> None:
        self._cuda.synchronize()

    def reset_peak_memory(self) -> None:
        reset = getattr(self._cuda, "reset_peak_memory_stats", None) or getattr(
            self._cuda, "reset_max_memory_allocated", None
        )
        if reset is not None:
            reset()

    def peak_memory(self) -> dict[str, Any]:
        return {"bytes": int(self._cuda.max_memory_allocated()), "kind": "gpu-allocated"}


class _TensorflowGpus:
    def __init__(self, tf: Any, names: list[str]) -> None:
        self._tf = tf
        self._names = names

    def synchronise(self) -> None:
        if hasattr(self._tf.test.experimental, "sync_devices"):
            self._tf.test.experimental.sync_devices()
            return
        for name in self._names:  # TensorFlow 2.12: reading a value waits for what is before it
            with self._tf.device(name):
                (self._tf.zeros(()) + 1).numpy()

    def reset_peak_memory(self) -> None:
        for name in self._names:
            self._tf.config.experimental.reset_memory_stats(name)

    def peak_memory(self) -> dict[str, Any]:
        info = self._tf.config.experimental.get_memory_info
        return {"bytes": max(int(info(n)["peak"]) for n in self._names), "kind": "gpu-allocated"}


def device_of(framework: str) -> Device:
    """Return the device of a program that has trained a step: the case's framework's first.

    TensorFlow is asked only where the case names it: in other programs it may be imported for
    its summaries alone, and a question would make it take the whole GPU.
    """
    finders = {"tensorflow": _tensorflow, "torch": _torch, "paddle": _paddle}
    order = [framework, *(name for name in ("torch", "paddle") if name != framework)]
    for name in order:
        module = sys.modules.get(name)
        found = finders[name](module) if module is not None else None
        if found is not None:
            return found
    return _Cpu()


def _torch(torch: Any) -> Device | None:
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()
    return _Cuda(torch.cuda) if in_use else None


def _paddle(paddle: Any) -> Device | None:
    in_use = paddle.device.get_device().startswith("gpu")
    return _Cuda(paddle.device.cuda) if in_use else None


def _tensorflow(tf: Any) -> Device | None:
    gpus = tf.config.list_logical_devices("GPU")
    return _TensorflowGpus(tf, [gpu.name for gpu in gpus]) if gpus else None


#: What trains, or holds the numbers of something that does: one of them is in every program
#: that trains within its own process.
_LIBRARIES: Final = (
    "torch", "paddle", "tensorflow", "jax", "numpy", "cupy", "keras", "megengine", "mindspore",
    "mlx", "mxnet", "oneflow", "jittor", "tinygrad",
)  # fmt: skip
#: Frameworks of a case.
_FRAMEWORKS: Final = ("torch", "paddle", "tensorflow")


class Settings(NamedTuple):
    """What ``DLPERF_MARK`` tells."""

    records: str
    iterations: int
    warmup: int
    #: Of one iteration of one rank, unless the mark says otherwise.
    work: float
    world_size: int
    #: Variables of a rank's number, its number on its node, and how many there are.
    place: tuple[str, str, str]
    #: The case's.
    framework: str


class _Lap(NamedTuple):
    seconds: float
    cpu_seconds: float
    wait_seconds: float
    work: float


class Marks:
    """The iterations of this rank; they are timed like the worker's own.

    A step lasts from the end of the one before to its own end, so that waiting for data is in
    it. The device is waited for at the edges of the measured window, never within. Raises
    ``FileExistsError`` if another process marks as this rank.
    """

    def __init__(self, settings: Settings) -> None:
        rank, local_rank, world_size = _place(settings.place)
        folder = Path(settings.records)
        self._settings = settings
        self._records = RecordWriter(folder, rank, exclusive=True)
        self._records.write(
            "start",
            format=RECORDS_FORMAT,
            local_rank=local_rank,
            world_size=world_size,
            pid=os.getpid(),
            pid_namespace=host.pid_namespace(),
            node=socket.gethostname(),
            boot=host.boot_id(),
            cores=os.cpu_count(),
            python=platform.python_version(),
            time=time.time(),
        )
        self._progress = ProgressCounter(folder, rank)
        self._progress.update(0)
        stack.watch(folder, rank)
        stack.watch_crashes()
        self._laps: list[_Lap] = []
        self._losses: list[Any] = []
        self._before: host.HostSample | None = None
        self._compiled = compiling.sample()
        self._ended_s = self._entered_s = time.perf_counter()
        self._cpu_s = time.process_time()
        self._work = settings.work
        self._is_over = False
        # The files are this process's: a forked child begins anew, see ``mark.step``.
        os.register_at_fork(after_in_child=self._leave)

    @classmethod
    def of_environment(cls) -> Marks | None:
        """Return the marks of this rank, as the launch plan set them up.

        None if another process marks as this rank; that it does is recorded.
        """
        values = json.loads(os.environ["DLPERF_MARK"])
        settings = Settings(**{**values, "place": tuple(values["place"])})
        try:
            return cls(settings)
        except FileExistsError:
            write_conflict(Path(settings.records), _place(settings.place)[0])
            return None

    def step(self, work: float | None) -> Marks:
        """Return the context of the next iteration."""
        self._work = self._settings.work if work is None else work
        return self

    def loss(self, value: Any) -> None:
        """Keep the loss; a tensor of a GPU is not waited for."""
        if not self._is_over:
            self._losses.append(_kept(value))

    def __enter__(self) -> Marks:
        self._entered_s = time.perf_counter()
        if not self._laps:
            # What came before the first step built the program; it waited for no data.
            self._ended_s, self._cpu_s = self._entered_s, time.process_time()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._is_over:
            return
        if error is not None:
            self._write_failure(error)
            return
        done = len(self._laps) + 1
        at_edge = done in {1, self._settings.warmup, self._settings.iterations}
        if at_edge:
            self._device().synchronise()
        now_s, cpu_s = time.perf_counter(), time.process_time()
        self._laps.append(
            _Lap(now_s - self._ended_s, cpu_s - self._cpu_s, self._entered_s - self._ended_s,
                 self._work)
        )  # fmt: skip
        self._ended_s, self._cpu_s = now_s, cpu_s
        self._progress.update(done)
        if at_edge:
            self._at_edge(done)

    def _at_edge(self, done: int) -> None:
        if done == 1:
            self._records.write("first_step", time=time.time())
        if done == self._settings.warmup:
            self._device().reset_peak_memory()
            self._before, self._compiled = host.sample(), compiling.sample()
            # What was just done is no part of the next step.
            self._ended_s, self._cpu_s = time.perf_counter(), time.process_time()
        elif done == self._settings.iterations:
            self._finish()

    def _write_failure(self, error: BaseException) -> None:
        self._records.write(
            "failure",
            code="exception",
            message=f"{type(error).__name__}: {error}",
            traceback="".join(traceback.format_exception(error)),
            time=time.time(),
        )
        self.close()

    def _device(self) -> Device:
        # Looked for each time: the first step may be what takes the GPU.
        return device_of(self._settings.framework)

    def _leave(self) -> None:
        self._is_over = True

    def close(self) -> None:
        """Record no more; the program goes on."""
        self._is_over = True
        self._records.close()

    def _finish(self) -> None:
        before, after = self._before, host.sample()
        assert before is not None
        self._records.write_many(
            [
                {
                    "record": "span",
                    "first_step": index,
                    "last_step": index,
                    "seconds": lap.seconds,
                    "work": lap.work,
                    "cpu_seconds": lap.cpu_seconds,
                    "data_wait_seconds": lap.wait_seconds,
                }
                for index, lap in enumerate(self._laps)
            ]
        )
        self._records.write("window", **host.window_record(before, after), inject=0.0)
        compiled = compiling.compile_record(self._compiled, compiling.sample())
        self._records.write("compile", **compiled)
        losses = [float(loss) for loss in self._losses]
        self._records.write("loss", values=[v if math.isfinite(v) else str(v) for v in losses])
        self._records.write("framework", **_framework(self._settings.framework))
        self._records.write("libraries", imported=[n for n in _LIBRARIES if n in sys.modules])
        self._records.write("memory", **self._device().peak_memory())
        if (found := imported()) is not None:
            self._records.write("imports", **found)
        self._records.write("end", time=time.time())
        self.close()


def _place(variables: tuple[str, str, str]) -> tuple[int, int, int]:
    """Return rank, local rank and world size: the launcher's, else the process group's."""
    found = [os.environ.get(name) for name in variables]
    if found[0] is not None:
        rank, local_rank, world_size = (int(value) if value else None for value in found)
        return rank or 0, local_rank or 0, world_size or 1
    group = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_rank(), 0, group.get_world_size()
    return 0, 0, 1


def _framework(of_case: str) -> dict[str, Any]:
    """Return which framework the program has imported, the case's before others.

    ``program`` if none is known.
    """
    for name in (of_case, *_FRAMEWORKS):
        module = sys.modules.get(name)
        if module is not None:
            version = getattr(module, "__version__", None)
            return {"framework": name, "framework_version": version, "device_id": None}
    return {"framework": "program", "framework_version": None, "device_id": None}


def _kept(loss: Any) -> Any:
    """Return the loss without its graph; a number where it lies on the CPU, as workers keep it."""
    alone = loss.detach() if hasattr(loss, "detach") else loss
    # Paddle's tensors know a place, those of PyTorch and TensorFlow a device.
    where = getattr(loss, "place", None) or getattr(loss, "device", "")
    return float(alone) if "cpu" in str(where).lower() else alone
