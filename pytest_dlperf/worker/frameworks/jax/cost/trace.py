"""Traces two steps on abstract arrays, and writes down what the second asks one rank for.

A step is taken as one program for all devices, as ``jax.jit`` would make it.
"""

from __future__ import annotations

import math
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import jax
import jax.numpy as jnp

from pytest_dlperf.core.secret_texts import masked, secrets_of
from pytest_dlperf.core.wire_cost import COST_FORMAT, CostRecord, PlaceCount, StageCost
from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.core.writable import error_words, shortened
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.cost.places import Places, workload_file
from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.cost.version_problem import version_problem
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.jax.cost.abstract_job import AbstractJob
from pytest_dlperf.worker.frameworks.jax.cost.counts import Counts
from pytest_dlperf.worker.frameworks.jax.cost.host_waits import HostWaits
from pytest_dlperf.worker.frameworks.jax.cost.memory import memory_of
from pytest_dlperf.worker.frameworks.jax.cost.places import HloPlaces
from pytest_dlperf.worker.frameworks.jax.cost.steps import traced_step
from pytest_dlperf.worker.frameworks.jax.framework import MATMUL, check_precision

NOTES: Final = (
    "Kernels, their fusion by a compiler, clocks, scheduling and the choice of an algorithm are "
    "not seen.",
    "Launches, operators, collectives and memory are those of the program that XLA's partitioner "
    "gives a rank, before XLA fuses, joins and orders them.",
)
_HOST_DEVICES: Final = "--xla_force_host_platform_device_count"


def trace(arguments: Arguments) -> CostRecord:
    """Return the cost of a step of the case, or the problem that kept it from being traced."""
    places = Places(workload_file(arguments.workload))
    try:
        return _record(arguments, places)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # of whatever a workload does
        traceback.print_exception(error)
        return CostRecord(
            format=COST_FORMAT,
            problem=shortened(masked(_problem(error), secrets_of(os.environ))),
            place=places.error_place(error),
        )


def _record(arguments: Arguments, places: Places) -> CostRecord:
    check_precision(arguments.precision)
    if Parallel.parse(arguments.parallel).pp > 1:
        raise ValueError("stages of a pipeline are not traced in JAX; measure this case")
    _with_host_devices(arguments.world_size)
    if arguments.precision in MATMUL:
        jax.config.update("jax_default_matmul_precision", MATMUL[arguments.precision])
    progress = Progress(arguments.folder)
    job = _job(arguments)
    if arguments.work is not None:
        job.work(arguments.work)
    waits = HostWaits(places)
    step = traced_step(arguments.workload, job, progress, waits)
    progress.begin("partitioning the step")
    program = step.partitioned(arguments.world_size, arguments.folder)
    axes = step.axes(arguments.world_size)
    counts = Counts(arguments.world_size, places, on_gpu=arguments.device == "gpu", axes=axes)
    counts.add(program.module)
    progress.begin("memory of the step")
    memory = memory_of(program.module, HloPlaces(program.module, places), step.program.donated)
    stage = StageCost(
        rank=0,
        flops=counts.flops(),
        operators=counts.operators(),
        layers=counts.layers(),
        launches=counts.launches(),
        collectives=counts.collectives,
        memory=memory,
        host_waits=[
            PlaceCount(place=place, what=what, count=count)
            for (place, what), count in sorted((waits.counts + counts.host_waits).items())
        ],
    )
    record = CostRecord(
        format=COST_FORMAT,
        framework="jax",
        framework_version=jax.__version__,
        world_size=arguments.world_size,
        stages=[stage],
        notes=[*NOTES, *_notes(counts)],
    )
    if step.parameters:
        stage["parameters"] = step.held(program.placements)
        record["parameters"] = sum(math.prod(atom.aval.shape) for atom in step.parameters)
    if job.iteration_work is not None:
        record["work"] = job.iteration_work
    return record


def _with_host_devices(count: int) -> None:
    """Give this process as many devices as the case has; JAX must not have looked for them yet."""
    others = re.sub(rf"{_HOST_DEVICES}=\d+", "", os.environ.get("XLA_FLAGS", ""))
    os.environ["XLA_FLAGS"] = f"{others} {_HOST_DEVICES}={count}".strip()
    jax.config.update("jax_platforms", "cpu")
    # What is read from a cache was not partitioned here
    jax.config.update("jax_enable_compilation_cache", False)
    if jax.device_count() != count:
        raise WorkerFailure(
            "world-size-mismatch",
            f"jax has {jax.device_count()} host devices, and the case {count}; look at "
            "JAX_NUM_CPU_DEVICES and at what this workload's modules do when they are imported",
        )


def _job(arguments: Arguments) -> AbstractJob:
    return AbstractJob.of(
        replace(arguments, rank=0, devices_per_process=arguments.world_size),
        device=jax.devices()[0],
        dtype=jnp.float16 if arguments.precision == "pure_fp16" else jnp.float32,
    )


def _notes(counts: Counts) -> Iterator[str]:
    """Yield what the trace cannot see of this workload, a sentence each."""
    for name in sorted(counts.uncounted):
        yield f"{name} may multiply, and has no formula: its FLOPs are left out"
    for path in sorted(counts.unknown_loops):
        where = f" in {path}" if path else ""
        yield f"A loop{where} goes around as often as values say: its body counts once"


def _problem(error: BaseException) -> str:
    """Return why a workload was not traced, a sentence."""
    if isinstance(error, WorkerFailure):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the workload ended its process by SystemExit({error.code!r}); let it return"
    if isinstance(error, _NEEDS_VALUES):
        return (
            f"{error_words(error).splitlines()[0][:300]} It needs numbers of the device, which a "
            "trace has not; keep it out of build and step, or measure this case"
        )
    return version_problem(error, "jax", jax.__version__) or error_words(error)


#: Errors of what would wait for a number of the device.
_NEEDS_VALUES: Final = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
