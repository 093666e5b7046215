"""The devices of a JAX training: how a rank joins the others, and what they reduce together.

A rank is a process. It drives one device, or several of its host, which are as good as ranks of
their own: the mesh has all devices of all processes.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.failure import WorkerFailure

#: The flag of XLA_FLAGS that gives a host several devices.
_HOST_DEVICES: Final = "xla_force_host_platform_device_count"


def join(arguments: Arguments) -> None:
    """Join the other processes, and let this one see its own devices alone.

    Raises ``WorkerFailure`` if the devices that JAX then has are not those of the case.
    """
    count = arguments.devices_per_process
    ranks = arguments.world_size // count
    first = arguments.local_rank * count
    local_ids = list(range(first, first + count))
    if arguments.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
        if _HOST_DEVICES not in os.environ.get("XLA_FLAGS", ""):
            jax.config.update("jax_num_cpu_devices", count)
        # All devices of a host share XLA's threads, whose number is taken from here.
        os.environ["NPROC"] = str(arguments.threads_per_rank * count)
    elif ranks == 1:
        # Several processes give it to jax.distributed.initialize.
        jax.config.update("jax_cuda_visible_devices", ",".join(map(str, local_ids)))
    if ranks > 1:
        _initialize(arguments, ranks, local_ids if arguments.device == "gpu" else None)
    _check(arguments, ranks)


def _initialize(arguments: Arguments, ranks: int, local_ids: list[int] | None) -> None:
    timeout_s = max(1, int(arguments.collective_timeout_s))
    options: dict[str, Any] = {
        "coordinator_address": os.environ.get("JAX_COORDINATOR_ADDRESS"),
        "num_processes": ranks,
        "process_id": arguments.rank,
        "local_device_ids": local_ids,
        "cluster_detection_method": "deactivate",
        "initialization_timeout": timeout_s,
        # After it, a rank whose peer is gone without a word is ended by JAX.
        "heartbeat_timeout_seconds": max(10, timeout_s),
    }
    if options["coordinator_address"] is None:
        raise WorkerFailure(
            "world-size-mismatch",
            f"{ranks} ranks of jax have no JAX_COORDINATOR_ADDRESS, by which they find each "
            "other; launcher='jax-processes' or 'mpirun' sets it",
        )
    if hasattr(jax.config, "jax_enable_preemption_service"):
        # It would take SIGTERM, by which a rank writes its stack and ends.
        jax.config.update("jax_enable_preemption_service", False)
    parameters = inspect.signature(jax.distributed.initialize).parameters
    jax.distributed.initialize(**{name: v for name, v in options.items() if name in parameters})


def _check(arguments: Arguments, ranks: int) -> None:
    count = arguments.devices_per_process
    try:
        platform, devices = jax.default_backend(), jax.local_device_count()
    except RuntimeError as error:
        raise WorkerFailure(
            "device-unusable",
            f"jax {jax.__version__} cannot use the devices of this case: {error}",
        ) from error
    if platform != arguments.device:
        raise WorkerFailure(
            "device-unusable",
            f"jax {jax.__version__} has no GPU here, its devices are of the kind {platform!r}; "
            "install a build for this driver (pip install 'jax[cuda13]'), or name CPU processes "
            "with --cpus",
        )
    if devices != count or jax.process_count() != ranks:
        raise WorkerFailure(
            "world-size-mismatch",
            f"jax has {devices} devices in this process and {jax.process_count()} processes, the "
            f"case {count} and {ranks}; look at XLA_FLAGS ({_HOST_DEVICES}), JAX_NUM_CPU_DEVICES "
            "and CUDA_VISIBLE_DEVICES, or say devices_per_process in the marker",
        )


class Reduction:
    """Sums over all devices of all processes."""

    def __init__(self) -> None:
        mesh = Mesh(np.array(jax.devices()), ("all",))
        self._spread = NamedSharding(mesh, PartitionSpec("all"))
        self._sum = jax.jit(
            jax.shard_map(
                lambda one: jax.lax.psum(one, "all"),
                mesh=mesh,
                in_specs=PartitionSpec("all"),
                out_specs=PartitionSpec(),
            )
        )

    def mean(self, value: float) -> float:
        """Return the mean of ``value`` over devices, the same number on every rank."""
        if jax.device_count() == 1:
            return value
        with xla_compiles.paused():
            total = self._sum(self._each(value, 1)).addressable_data(0)
            jax.block_until_ready(total)  # as for a loss: NumPy would wait in C
            return float(np.asarray(total)[0, 0]) / int(jax.device_count())

    def launch_of(self, numbers: int) -> Callable[[], Any]:
        """Return a function that begins to reduce so many float32 numbers of each device.

        They are reduced once here, by all ranks: the program of this size is compiled then.
        """
        message = self._each(0.0, numbers)
        jax.block_until_ready(self._sum(message))
        return lambda: self._sum(message)

    def _each(self, value: float, numbers: int) -> Any:
        local = np.full((jax.local_device_count(), numbers), value, np.float32)
        return jax.make_array_from_process_local_data(self._spread, local)


class Settled:
    """Waits until this process's devices have done all that was asked of them.

    An operation that needs one result must not be enough: a step may have queued work that its
    loss does not need. On CPUs every array that lives is waited for, since work is not done in
    order there; on GPUs one more operation on each device, since there it is.
    """

    def __init__(self, *, on_gpu: bool) -> None:
        self._ticks: list[Any] = []
        self._tick = jax.jit(lambda tick: tick + 1)
        if on_gpu:
            self._ticks = [jax.device_put(jnp.zeros(()), device) for device in jax.local_devices()]
            with xla_compiles.paused():
                self()

    def __call__(self) -> None:
        """Wait."""
        if self._ticks:
            jax.block_until_ready([self._tick(one) for one in self._ticks])
        else:
            jax.block_until_ready(jax.live_arrays())
