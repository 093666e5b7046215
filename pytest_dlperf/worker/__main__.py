"""``python -m pytest_dlperf.worker``: one rank of a case."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from typing import Final, NoReturn

from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire_model import ArithmeticRecord, ChecksumRecord, ModelRecord
from pytest_dlperf.core.wire_records import MomentRecord
from pytest_dlperf.worker import arguments as command_line
from pytest_dlperf.worker import failure, host
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.failure import (
    WorkerFailure,
    check_batch,
    check_data,
    check_precision,
    check_tf32,
)
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.hardware_counters import open_counters
from pytest_dlperf.worker.host import imported, watch_reads
from pytest_dlperf.worker.job import Job
from pytest_dlperf.worker.loop import (
    RunProtocol,
    Trained,
    check_loss,
    run_loop,
    write_canary,
)
from pytest_dlperf.worker.records import ProgressCounter, RecordWriter
from pytest_dlperf.worker.run_ahead import write_wait_cost
from pytest_dlperf.worker.scaling import write_scaling
from pytest_dlperf.worker.settings import settings_record
from pytest_dlperf.worker.turns import InTurns, Turns
from pytest_dlperf.worker.workload import build

#: The training, which lives until the process ends. Where DistributedDataParallel is freed, it
#: waits for a thread of gloo while it holds the interpreter's lock, and that thread may wait for
#: the lock, to free a tensor: the rank would hang after its last record.
_ALIVE: Final[list[object]] = []


def main() -> None:
    """Run one rank; every failure becomes a record before it becomes an exit code."""
    arguments = command_line.parse()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    records = RecordWriter(arguments.folder, arguments.rank)
    records.write(start=host.start_record(arguments.local_rank, arguments.launched_world_size))
    failure.watch(arguments.folder, arguments.rank)
    try:
        _train(arguments, records)
    except (Exception, SystemExit) as error:
        records.write(failure=failure.failure_record(error))
        raise


def _join(arguments: Arguments) -> Framework:
    """Import the framework of ``arguments``, which is imported only now, and join the job."""
    name = arguments.framework
    os.environ.update(FRAMEWORKS[name].variables.get(arguments.precision, {}))
    module = importlib.import_module(f"pytest_dlperf.worker.frameworks.{name}.framework")
    join = getattr(module, FRAMEWORKS[name].worker)
    # Its import may have taken SIGTERM (Paddle), and a rank may hang while it joins the others.
    failure.watch(arguments.folder, arguments.rank)
    failure.watch_crashes()
    framework: Framework = join(arguments)
    return framework


def _train(arguments: Arguments, records: RecordWriter) -> None:
    ranks = arguments.world_size // arguments.devices_per_process
    if arguments.launched_world_size != ranks:
        raise WorkerFailure(
            "world-size-mismatch",
            f"the launcher started {arguments.launched_world_size} ranks, the case has {ranks}",
        )
    progress = ProgressCounter(arguments.folder, arguments.rank)
    if arguments.device == "cpu":
        open_counters()
    framework = _join(arguments)
    records.write(framework=framework.facts())
    if arguments.work is not None:
        framework.job.work(arguments.work)
    watch_reads()
    step = build(arguments.workload, framework.job)
    _ALIVE.extend((framework, step))
    records.write(built=MomentRecord(time=time.time()))
    if framework.job.feed.used:
        framework.barrier()  # the readers of all ranks share the host
        framework.job.feed.read_alone()
    protocol = RunProtocol(
        iterations=arguments.iterations,
        warmup=arguments.warmup,
        warmup_s=arguments.warmup_s,
        batch_size_per_device=arguments.batch_size_per_device,
        uncounted_unit=arguments.uncounted_unit,
        inject=arguments.inject,
    )
    trained = run_loop(framework, step, protocol, records, progress, _turns(arguments))
    model = framework.model()
    records.write(model=model)
    records.write(memory=framework.peak_memory())
    arithmetic = framework.arithmetic()
    records.write(arithmetic=arithmetic)
    records.write(data=framework.job.feed.record())
    records.write(checksum=ChecksumRecord(value=framework.checksum()))
    if arguments.scaling:
        write_scaling(framework, step, records, arguments.folder, arguments.device)
    if arguments.device == "gpu":
        write_wait_cost(framework, step, records, trained.laps_s, trained.ahead)
    if arguments.profile:
        records.write(profile=framework.profile(step, arguments.folder))
    framework.job.feed.close()
    framework.barrier()  # the canary is of all ranks at once
    write_canary(framework, records, when="after")
    _check_trained(arguments, framework.job, model, arithmetic, trained)
    if arguments.rank == 0:
        records.write(settings=settings_record())
    if (imports := imported()) is not None:
        records.write(imports=imports)
    records.write(end=MomentRecord(time=time.time()))
    framework.close()


def _turns(arguments: Arguments) -> Turns:
    """Return how the measured window is divided."""
    if arguments.turns:
        return InTurns(arguments.folder, arguments.rank, window_begin=arguments.warmup)
    return Turns()


def _check_trained(
    arguments: Arguments,
    job: Job,
    model: ModelRecord,
    arithmetic: ArithmeticRecord,
    trained: Trained,
) -> None:
    """Raise ``WorkerFailure`` where the training was another one than the case names."""
    rows = job.feed.rows
    # The batch of the first iteration may be a smaller one that the workload counts as such
    if not (rows.says_each and rows.saw_whole):
        check_batch(
            model["input_shapes"],
            arguments.batch_size_per_device,
            job.batch_dimension,
            in_parts=job.parallel.pp > 1,
        )
    check_precision(
        model["flops_by_dtype"], arguments.precision, job.scaler, job.half_by,
        uncounted=model.get("uncounted", {}),
    )  # fmt: skip
    check_tf32(arithmetic, arguments.precision, on_gpu=arguments.device == "gpu")
    check_loss(trained.losses, arguments.loss, falls_within=arguments.checked_iterations)
    check_data(arguments.data, used=job.feed.used)


def _leave() -> NoReturn:
    """End this process at once; print its exception, if it has one.

    The interpreter's own end is left out: gloo's threads sometimes abort in it ("terminate
    called without an active exception"), since the wrapped model still holds its process group;
    and where another rank hangs, the end of that group waits for it. Temporary files are in the
    run's folder, and are removed with it.
    """
    error = sys.exc_info()[1]
    if error is not None:
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if error is None else 1)


if __name__ == "__main__":
    try:
        main()
    finally:
        _leave()
