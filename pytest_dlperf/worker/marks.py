"""Times the marked steps of a user's own program, and writes the records of a rank for it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from pytest_dlperf.core.wire import MARK_VARIABLE, MarkSettings
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CanaryRecord,
    DataRecord,
    FailureRecord,
    LibrariesRecord,
    LossRecord,
    MomentRecord,
    SpanRecord,
)
from pytest_dlperf.worker import compiling, failure, host
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.frameworks.base import Timer
from pytest_dlperf.worker.host import imported
from pytest_dlperf.worker.marked_checks import MarkedChecks
from pytest_dlperf.worker.marked_device import Device, device_of, framework_record
from pytest_dlperf.worker.records import (
    MetricBook,
    ProgressCounter,
    RecordWriter,
    kept_number,
    write_conflict,
)
from pytest_dlperf.worker.settings import settings_record

#: Libraries that train, or that hold the numbers of a training: every program that trains in its
#: own process imports one of them.
_LIBRARIES: Final = (
    "torch", "paddle", "tensorflow", "jax", "numpy", "cupy", "keras", "megengine", "mindspore",
    "mlx", "mxnet", "oneflow", "jittor", "tinygrad",
)  # fmt: skip


class Marks:
    """The marked iterations of this rank, timed like those of a workload.

    A step lasts from the end of the step before to its own end, so that it contains the wait for
    data. The device is waited for at the edges of the measured window, never within: on a GPU the
    laps are events. Where those tell no time, each step is waited for. Raises
    ``FileExistsError`` if another process marks as this rank.
    """

    def __init__(self, settings: MarkSettings) -> None:
        rank, local_rank, world_size = _place(settings.place)
        folder = Path(settings.records)
        self._settings = settings
        self._records = RecordWriter(folder, rank, exclusive=True)
        self._records.write(start=host.start_record(local_rank, world_size))
        self._progress = ProgressCounter(folder, rank)
        self._progress.update(0)
        failure.watch(folder, rank)
        failure.watch_crashes()
        self._timer: Timer = on_cpu.CpuTimer()
        #: Wall and CPU seconds of the laps of timers that were read.
        self._times: list[tuple[float, float]] = []
        self._waits_s: list[float] = []
        self._works: list[float] = []
        self._losses: list[Any] = []
        self._book = MetricBook()
        self._checks: MarkedChecks | None = None
        self._before: host.HostSample | None = None
        self._compiled = compiling.sample()
        self._ended_s = self._entered_s = time.perf_counter()
        self._work = 0.0
        self._is_over = False
        # The files belong to this process; a forked child opens its own, see ``mark.step``.
        os.register_at_fork(after_in_child=self._leave)

    @classmethod
    def of_environment(cls) -> Marks | None:
        """Return the marks of this rank, as the launch plan set them up.

        None if another process marks as this rank; the conflict is recorded.
        """
        settings = MarkSettings.of_json(os.environ[MARK_VARIABLE])
        try:
            return cls(settings)
        except FileExistsError:
            write_conflict(Path(settings.records), _place(settings.place)[0])
            return None

    def step(self, work: float | None, samples: float | None = None) -> Marks:
        """Return the context of the next iteration.

        ``samples`` is its work where the case counts those, and does not say its work itself.
        Nothing more is recorded where neither the mark nor the case says the work of a step.
        """
        settings, found = self._settings, work
        if found is None:
            counts_samples = settings.work is not None and not settings.is_work_declared
            found = samples if samples is not None and counts_samples else settings.work
        if found is None and not self._is_over:
            self._refuse()
        self._work = (found or 0.0) * settings.devices_per_process / settings.split
        return self

    def _refuse(self) -> None:
        unit = self._settings.unit
        message = (
            f"the case counts {unit}, and a marked step does not say how many {unit} its rank "
            "trains in it: the batch size counts samples. Say it with the step "
            "(step(work=...)), or in the marker (work=...)"
        )
        failure = FailureRecord(
            code="work-unknown", message=message, traceback="", time=time.time()
        )
        self._records.write(failure=failure)
        self.close()

    def loss(self, value: Any) -> None:
        """Keep the loss; a tensor of a GPU is not waited for."""
        if not self._is_over:
            self._losses.append(kept_number(value))

    def metric(self, name: str, value: Any, better: str, unit: str) -> None:
        """Keep a metric; a conflict is recorded as the case's failure, and raised."""
        if self._is_over:
            return
        try:
            self._book.add(name, value, better, unit)
        except (ValueError, TypeError) as error:
            self._write_failure(error)
            raise

    def checked(self, parameters: Iterable[Any], *, fixed_batch: bool) -> None:
        """Check the training as a workload's; what cannot be is a failure, and raised."""
        if self._is_over:
            return
        try:
            self._checks = MarkedChecks(
                self._settings.framework, parameters, fixed_batch=fixed_batch
            )
        except TypeError as error:
            self._write_failure(error)
            raise

    def canary(self) -> None:
        """Measure the GPU of this rank before its first step; nothing on CPUs.

        A call that cannot do that is recorded as the case's failure, and raised.
        """
        if self._is_over or not self._settings.on_gpu:
            return
        try:
            if self._works:
                raise RuntimeError(
                    "canary() takes a second and more, which would be in the time of a step: call "
                    "it before the first step"
                )
            rates = self._device().canary(self._settings.precision)
        except Exception as error:
            self._write_failure(error)
            raise
        self._write_canary(rates, "before")

    def __enter__(self) -> Marks:
        self._entered_s = time.perf_counter()
        if not self._works:
            # The time before the first step went into building the program, not into waiting.
            self._ended_s = self._entered_s
            self._timer.start()
        # The second step, within the warm-up: the first may still build what the others do
        if self._checks is not None and len(self._works) == 1 < self._settings.warmup:
            self._checks.watch()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._is_over:
            return
        if error is not None:
            self._write_failure(error)
            return
        done = len(self._works) + 1
        if self._checks is not None and done == 2:
            self._check_precision(self._checks)
        if done == 1:
            # The program has its device by now; the first lap is one of the host's clock.
            self._device().synchronise()
        self._timer.lap()
        self._waits_s.append(self._entered_s - self._ended_s)
        self._works.append(self._work)
        self._ended_s = time.perf_counter()
        self._finished(self._timer.done())
        if done in {1, self._settings.warmup, self._settings.iterations}:
            self._at_edge(done)

    def _check_precision(self, checks: MarkedChecks) -> None:
        try:
            checks.watched(self._settings.precision)
        except failure.WorkerFailure as error:
            self._write_failure(error)
            raise

    def _finished(self, laps: int) -> None:
        """Report what the device did: the host may have queued more."""
        self._progress.update(len(self._times) + laps)

    def _at_edge(self, done: int) -> None:
        self._timer.finish(self._finished)
        device = self._device()
        device.synchronise()
        self._times += self._timer.read()
        if done == 1:
            compiling.first_step_ended()
            self._records.write(first_step=MomentRecord(time=time.time()))
            self._write_host_canary("before")
        if done == self._settings.iterations:
            self._finish(device)
            return
        self._timer = device.timer()
        if done == self._settings.warmup:
            device.reset_peak_memory()
            self._book.start_window()
            self._before, self._compiled = host.sample(), compiling.sample()
        # The next step begins after this bookkeeping.
        self._timer.start()
        self._ended_s = time.perf_counter()

    def _write_failure(self, error: BaseException) -> None:
        self._records.write(failure=failure.failure_record(error))
        self.close()

    def _device(self) -> Device:
        # Asked each time: it may be the first step that takes the GPU.
        return device_of(self._settings.framework)

    def _leave(self) -> None:
        self._is_over = True

    def close(self) -> None:
        """Record no more; the program goes on."""
        self._is_over = True
        self._records.close()

    def _finish(self, device: Device) -> None:
        before, after = self._before, host.sample()
        assert before is not None
        write = self._records.write
        timed = enumerate(zip(self._times, self._waits_s, self._works, strict=True))
        self._records.write_spans(
            SpanRecord(
                first_step=index,
                last_step=index,
                seconds=seconds,
                work=work,
                cpu_seconds=cpu_seconds,
                data_wait_seconds=wait_s,
            )
            for index, ((seconds, cpu_seconds), wait_s, work) in timed
        )
        write(window=host.window(before, after, inject=0.0))
        write(
            compile=compiling.compile_record(
                self._compiled, compiling.sample(), compiling.graphs()
            )
        )
        try:
            reported = self._book.record()
        except ValueError as error:
            self._write_failure(error)
            raise
        if reported["values"]:
            write(metrics=reported)
        losses = [float(loss) for loss in self._losses]
        write(loss=LossRecord(values=[v if math.isfinite(v) else str(v) for v in losses]))
        write(framework=framework_record(self._settings.framework, device))
        write(libraries=LibrariesRecord(imported=[n for n in _LIBRARIES if n in sys.modules]))
        write(memory=device.peak_memory())
        if self._checks is not None:
            write(checksum=self._checks.record())
            if self._checks.fixed_batch:
                write(data=DataRecord(kind="synthetic"))
        if self._records.rank == 0:
            write(settings=settings_record())
        if (found := imported()) is not None:
            write(imports=found)
        self._write_host_canary("after")
        write(end=MomentRecord(time=time.time()))
        self.close()

    def _write_host_canary(self, when: Literal["before", "after"]) -> None:
        """Measure the host of a case on CPUs, where its clock is what training follows."""
        if not self._settings.on_gpu:
            self._write_canary(canary.of_host(), when)

    def _write_canary(self, rates: CanaryRates, when: Literal["before", "after"]) -> None:
        self._records.write(canary=CanaryRecord(when=when, **rates, time=time.time()))


def _place(variables: tuple[str, str, str]) -> tuple[int, int, int]:
    """Return rank, local rank and world size: from the launcher, else from the process group."""
    found = [os.environ.get(name) for name in variables]
    if found[0] is not None:
        rank, local_rank, world_size = (int(value) if value else None for value in found)
        return rank or 0, local_rank or 0, world_size or 1
    group = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_rank(), 0, group.get_world_size()
    return 0, 0, 1
