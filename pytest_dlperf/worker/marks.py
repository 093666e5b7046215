"""Times the marked steps of a user's own program, and writes the records of a rank for it."""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_dlperf.core.wire import MARK_VARIABLE, MarkSettings
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CanaryRecord,
    DataRecord,
    FailureRecord,
    LibrariesRecord,
    MomentRecord,
    WindowRecord,
)
from pytest_dlperf.worker import compiling, failure, host
from pytest_dlperf.worker.batch_rows import StepRows
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.host import imported
from pytest_dlperf.worker.marked_checks import MarkedChecks
from pytest_dlperf.worker.marked_device import Device, device_of, framework_record
from pytest_dlperf.worker.marked_laps import StepLaps
from pytest_dlperf.worker.marked_work import checked_work, said_work, work_of_step
from pytest_dlperf.worker.records import (
    MetricBook,
    ProgressCounter,
    RecordWriter,
    kept_number,
    write_conflict,
)
from pytest_dlperf.worker.settings import settings_record
from pytest_dlperf.worker.training_records import Steps, write_training
from pytest_dlperf.worker.turns import InTurns, Turns

if TYPE_CHECKING:
    from types import TracebackType

    from pytest_dlperf.worker.marked_profile import MarkedProfile

#: Libraries that train, or that hold the numbers of a training: every program that trains in its
#: own process imports one of them.
_LIBRARIES: Final = (
    "torch", "paddle", "tensorflow", "jax", "numpy", "cupy", "keras", "megengine", "mindspore",
    "mlx", "mxnet", "oneflow", "jittor", "tinygrad",
)  # fmt: skip

#: Folder of the callbacks.
_CALLBACKS: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "mark", "")


class Phase(NamedTuple):
    """A phase between two steps of a marked program."""

    name: str
    #: CPU seconds of this process and its living descendants, when it began.
    own_cpu_s: float


class Marks:
    """The marked iterations of this rank, timed like those of a workload.

    A step lasts from the end of the step before to its own end, so that it contains the wait for
    data; a phase between two steps is in neither. The device is waited for at the edges of the
    measured window, never within: on a GPU the laps are events. Where those tell no time, each
    step is waited for. What a mark says and cannot mean is recorded as the failure of the rank,
    and the program goes on. Raises
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
        host.watch_reads()
        failure.watch(folder, rank)
        failure.watch_crashes()
        self._laps = StepLaps(on_cpu.CpuTimer())
        #: Wall and CPU seconds of the steps of timers that were read, and of the phases between
        #: the steps of the last of them.
        self._times: list[tuple[float, float]] = []
        self._left_out: dict[str, float] = {}
        self._left_out_cpu_s = 0.0
        self._waits_s: list[float] = []
        #: Numbers, and tensors of a GPU.
        self._works: list[Any] = []
        self._losses: list[Any] = []
        self._book = MetricBook()
        self._checks: MarkedChecks | None = None
        self._turns = Turns()
        #: Whether it had the turn in which it warms up: its first step may be begun again.
        self._has_turn = False
        #: The step at whose end the turn ends, and the turns of the window so far.
        self._turn_end = 0
        self._parts: list[WindowRecord] = []
        self._before: host.HostSample | None = None
        self._compiled = compiling.sample()
        #: Where the time began that the next step waits, and how long it waited before.
        self._free_s = time.perf_counter()
        self._wait_s = 0.0
        self._next: Any = None
        self._declared_work: Any = None
        self._rows: StepRows | None = None
        #: File and line of the step that is open, and the thread of the last one.
        self._open: tuple[str, int] | None = None
        self._thread = 0
        #: Whether a step was asked for, and has not begun.
        self._is_asked = False
        self._phase: Phase | None = None
        #: Of the steps after the last measured one, where they are profiled.
        self._profile: MarkedProfile | None = None
        self._is_over = False
        try:
            self._turns = _turns(settings, folder, rank)
        except WorkerFailure as error:
            self._refuse(error)
        # The files belong to this process; a forked child opens its own, see ``mark.step``.
        os.register_at_fork(after_in_child=self._leave)
        self._record_last_error()

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

    def step(self, work: Any = None) -> Marks:
        """Return the context of the next iteration, which does so much; None: not said yet."""
        if self._is_asked:
            # Two frames up: pytest_dlperf.mark is between
            frame = sys._getframe(2)
            place = _words((frame.f_code.co_filename, frame.f_lineno))
            message = (
                f"the step of {place} never began: step() is a context, and measures what is "
                "within it. Write 'with step():' before what one iteration does"
            )
            self._refuse(WorkerFailure("step-not-begun", message))
        self._is_asked = True
        self._next = self._kept(work) if work is not None else None
        return self

    def work(self, amount: Any) -> None:
        """Say how much the open step does; as for ``step``."""
        self._declared_work = self._kept(amount)

    @property
    def rows_of_batch(self) -> int:
        """Rows of a whole batch of this rank: of all replicas that it has a part of."""
        given = self._settings
        return given.batch_size_per_device * max(1, given.devices_per_process // given.split)

    def _kept(self, work: Any) -> Any:
        try:
            return None if self._is_over else said_work(work)
        except WorkerFailure as error:
            self._refuse(error)
            return None

    def rows(self, rows: StepRows) -> None:
        """Say what went into the open step, for a callback that does not know the case."""
        self._rows = rows

    def abandon(self) -> None:
        """Forget the open step: its time belongs to the one that follows, its work to none."""
        self._open = None
        if self._checks is not None:
            self._checks.leave()

    def _refuse(self, error: WorkerFailure) -> None:
        """Record what the marks cannot measure; no line of theirs is of use to the user."""
        if not self._is_over:
            self._records.write(
                failure=FailureRecord(
                    code=error.code, message=str(error), traceback="", time=time.time()
                )
            )
            self._turns.leave()
            self.close()

    def loss(self, value: Any) -> None:
        """Keep the loss; a tensor of a GPU is not waited for."""
        if self._is_over:
            return
        try:
            if (length := math.prod(getattr(value, "shape", ()))) != 1:
                raise ValueError(f"it has {length} elements")
            self._losses.append(kept_number(value))
        except (TypeError, ValueError, RuntimeError) as error:
            message = (
                f"a marked step says loss({type(value).__name__}): {error}; give a number, or a "
                "tensor of one element"
            )
            self._refuse(WorkerFailure("step-returned-no-loss", message))

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
        self._is_asked = False
        frame = sys._getframe(1)
        place = frame.f_code.co_filename, frame.f_lineno
        if self._open is not None:
            message = (
                f"a step began within a step: that of {_words(place)} within that of "
                f"{_words(self._open)}; one training would count twice. Leave one of the marks out"
            )
            self._refuse(WorkerFailure("marked-twice", message))
        self._open, self._thread = place, threading.get_ident()
        self._phase = None  # it holds steps, so that it is not between two
        self._declared_work, self._rows, self._next = self._next, None, None
        if not self._has_turn:
            self._has_turn = True
            self._turns.await_warm_up()
        now_s = time.perf_counter()
        if not self._works:
            # The time before the first step went into building the program, not into waiting.
            self._free_s, self._wait_s = now_s, 0.0
            self._laps.start()
        self._wait_s += now_s - self._free_s
        # The second step, within the warm-up: the first may still build what the others do
        if self._checks is not None and len(self._works) == 1 < self._settings.warmup:
            self._checks.watch()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        place, is_open = self._open, self._open is not None
        if self._is_over or error is not None:
            self.abandon()
            if self._profile is not None and is_open and error is None:
                self._profile.step_ended()
            if error is not None and not self._is_over:
                self._write_failure(error, _left(place, error))
            return
        self._open = None
        try:
            if not is_open:
                raise WorkerFailure("marked-twice", "a step ended that had not begun")
            work = work_of_step(self._settings, self._declared_work, self._rows)
        except WorkerFailure as refused:
            self._refuse(refused)
            return
        done = len(self._works) + 1
        if self._checks is not None and done == 2:
            self._check_precision(self._checks)
        if done == 1:
            # The program has its device by now; the first lap is one of the host's clock.
            self._device().synchronise()
        self._laps.end_step()
        self._waits_s.append(self._wait_s)
        self._works.append(work)
        self._free_s, self._wait_s = time.perf_counter(), 0.0
        self._finished(self._laps.done())
        if done in {1, self._settings.warmup, self._turn_end}:
            self._at_edge(done)

    def begin_phase(self, name: str) -> Phase | None:
        """Begin a phase; return None where it is a part of a step, or of another phase.

        Between two steps its time belongs to neither of them, unless a step begins within it.
        """
        is_between = self._open is None and self._thread == threading.get_ident()
        if self._is_over or self._phase is not None or not self._works or not is_between:
            return None
        self._wait_s += time.perf_counter() - self._free_s
        self._laps.begin_phase()
        self._phase = Phase(name, host.own_tree_cpu_s())
        self._free_s = time.perf_counter()
        return self._phase

    def end_phase(self, phase: Phase) -> None:
        """End a phase; one in which a step began is a part of the steps."""
        if self._phase is phase:
            self._phase = None
            if not self._is_over:
                self._left_out_cpu_s += host.own_tree_cpu_s() - phase.own_cpu_s
                self._laps.end_phase(phase.name)
                self._free_s = time.perf_counter()

    def _check_precision(self, checks: MarkedChecks) -> None:
        try:
            checks.watched(self._settings.precision)
        except WorkerFailure as error:
            self._write_failure(error)
            raise

    def _finished(self, steps: int) -> None:
        """Report what the device did: the host may have queued more."""
        self._progress.update(len(self._times) + steps)

    def _at_edge(self, done: int) -> None:
        self._laps.finish(self._finished)
        device = self._device()
        device.synchronise()
        self._read_laps()
        if done == 1:
            compiling.first_step_ended()
            self._records.write(first_step=MomentRecord(time=time.time()))
            self._write_host_canary("before")
        if self._before is not None:
            self._parts.append(host.window(self._before, host.sample(), inject=0.0))
        if done == self._settings.iterations:
            self._turns.end_window()
            self._finish(device)
            return
        self._laps = StepLaps(device.timer())
        if done >= self._settings.warmup:
            self._begin_turn(device, done)
        # The next step begins after this bookkeeping.
        self._laps.start()
        self._free_s = time.perf_counter()

    def _begin_turn(self, device: Device, done: int) -> None:
        """Wait for a turn that begins after ``done`` steps; the first begins the window."""
        if self._before is None:
            count = self._turns.begin_window(self._typical_s())
            device.reset_peak_memory()
            self._book.start_window()
            self._left_out, self._left_out_cpu_s = {}, 0.0
            self._compiled = compiling.sample()
        else:
            count = self._turns.next_turn(done)
        self._turn_end = min(self._settings.iterations, done + count)
        self._before = host.sample()

    def _read_laps(self) -> None:
        steps, phases_s = self._laps.read()
        self._times += steps
        for name, seconds in phases_s.items():
            self._left_out[name] = self._left_out.get(name, 0.0) + seconds

    def _typical_s(self) -> float:
        return statistics.median(seconds for seconds, _ in self._times[2:] or self._times)

    def _write_failure(self, error: BaseException, remedy: str = "") -> None:
        record = failure.failure_record(error)
        record["message"] += remedy
        self._records.write(failure=record)
        self._turns.leave()
        self.close()

    def _record_last_error(self) -> None:
        """Record what ends the program outside of its steps; the log alone had it."""
        shown_by = sys.excepthook

        def show(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            # A launcher ends ranks by KeyboardInterrupt, for what another of them did
            if not self._is_over and isinstance(error, Exception):
                self._write_failure(error)
            shown_by(kind, error, trace)

        sys.excepthook = show

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
        try:
            self._write_results(device)
        except WorkerFailure as error:
            self._refuse(error)
        except Exception as error:
            self._write_failure(error)
            raise

    def _write_results(self, device: Device) -> None:
        write, settings = self._records.write, self._settings
        # A replica's work, of which this process drives some and others have parts
        share = settings.devices_per_process / settings.split
        works = [checked_work(work) * share for work in self._works]
        window = host.together(self._parts)
        self._turns.write(self._records)
        if self._left_out:
            window["left_out"] = self._left_out
            window["left_out_cpu_seconds"] = self._left_out_cpu_s
        write_training(
            self._records,
            Steps(self._times, self._waits_s, works),
            window,
            self._compiled,
            self._book,
            map(float, self._losses),
        )
        write(framework=framework_record(self._settings.framework, device))
        write(libraries=LibrariesRecord(imported=[n for n in _LIBRARIES if n in sys.modules]))
        write(memory=device.peak_memory())
        if self._checks is not None:
            write(checksum=self._checks.record())
            if self._checks.fixed_batch:
                write(data=DataRecord(kind="synthetic"))
        if self._records.rank == 0:
            write(settings=settings_record())
        if (imports := imported()) is not None:
            write(imports=imports)
        self._write_host_canary("after")
        if settings.profiled_steps:
            # Nothing of it is loaded in a run that is judged
            from pytest_dlperf.worker.marked_profile import MarkedProfile

            self._is_over = True
            self._profile = MarkedProfile(settings, self._records, device)
            return
        write(end=MomentRecord(time=time.time()))
        self.close()

    def _write_host_canary(self, when: Literal["before", "after"]) -> None:
        """Measure the host of a case on CPUs, where its clock is what training follows."""
        if not self._settings.on_gpu:
            self._write_canary(canary.host_rates(), when)

    def _write_canary(self, rates: CanaryRates, when: Literal["before", "after"]) -> None:
        self._records.write(canary=CanaryRecord(when=when, **rates, time=time.time()))


def _turns(settings: MarkSettings, folder: Path, rank: int) -> Turns:
    """Return how the measured window is divided."""
    if settings.turns:
        return InTurns(folder, rank, window_begin=settings.warmup)
    return Turns()


def _words(place: tuple[str, int]) -> str:
    """Return the place of a mark in words."""
    path, line = place
    callback = "StepCallback, " if path.startswith(_CALLBACKS) else ""
    return f"{callback}{path}:{line}"


def _left(place: tuple[str, int] | None, error: BaseException) -> str:
    """Return in words which step ``error`` left, and what to do; goes on with its message."""
    if place is None:
        return ""
    step = f"the marked step of {_words(place)} did not end"
    if isinstance(error, GeneratorExit):
        return f"{step}: the loop over its generator was left; mark the step in the loop's body"
    return f"; {step}. Where the program goes on after that, catch the error within the step"


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
