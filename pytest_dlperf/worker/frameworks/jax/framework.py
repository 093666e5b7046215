"""JAX in one rank: a process with one device, or several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from pytest_dlperf.core.wire_model import ArithmeticRecord, Checksum, ModelRecord
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CollectivesRecord,
    FrameworkRecord,
    MemoryRecord,
)
from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.batch_rows import BatchRows, Shaped
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.frameworks.base import (
    PeakWithoutCanary,
    Timer,
    no_loss,
    tf32_overrides,
)
from pytest_dlperf.worker.frameworks.jax import cuda_version, devices, watch
from pytest_dlperf.worker.frameworks.jax.job import JaxJob

#: What float32 products are computed in, by precision; others leave it to the workload.
MATMUL: Final = {"fp32": "highest", "tf32": "tensorfloat32"}
#: Values of ``jax_default_matmul_precision`` with which a GPU does not use TF32.
_FLOAT32: Final = frozenset({"highest", "float32"})
_PRECISIONS: Final = ("fp32", "tf32", "bf16", "pure_fp16")


def check_precision(precision: str) -> None:
    """Raise ``WorkerFailure`` for a precision that JAX has not."""
    if precision not in _PRECISIONS:
        raise WorkerFailure(
            "precision-unsupported",
            f"precision {precision} is not there for jax; use one of {', '.join(_PRECISIONS)}",
        )


def measure_canary(reduction: devices.Reduction, precision: str, *, on_gpu: bool) -> CanaryRates:
    """Return the canary's rates on this rank: of its first device, and of all for an all-reduce.

    A negation takes the place of the copy: JAX's own copies may share their buffers.
    """
    work = canary.work_of(on_gpu=on_gpu)
    sides = work.side, work.side
    device = jax.local_devices()[0]
    left = right = jnp.ones(sides, device=device)
    if on_gpu:
        dtype = canary.HALF.get(precision, "float32")
        keys = jax.random.split(jax.random.key(1))
        left, right = (jax.device_put(jax.random.normal(k, sides, dtype), device) for k in keys)
    source = jnp.ones(work.copied, device=device)
    matmul, negative = jax.jit(jnp.matmul), jax.jit(jnp.negative)
    launches = canary.Launches(
        matmul=lambda: matmul(left, right),
        copy=lambda: negative(source),
        all_reduce=reduction.launch_of(work.reduced) if jax.device_count() > 1 else None,
        wait=jax.block_until_ready,
    )
    return canary.measure(launches, work, on_gpu=on_gpu)


@xla_compiles.paused()
def product_error() -> float:
    """Return the relative error of one float32 product, as in ``torch/watch.py``."""
    made = np.random.default_rng(1)
    left, right = (made.standard_normal((256, 256), np.float32) for _ in range(2))
    exact = left.astype(np.float64) @ right.astype(np.float64)
    with xla_compiles.paused():
        product = np.asarray(jnp.matmul(left, right)).astype(np.float64)
    return float(np.linalg.norm(product - exact) / np.linalg.norm(exact))


class Jax:
    """JAX as the loop sees it."""

    def __init__(self, arguments: Arguments) -> None:
        check_precision(arguments.precision)
        xla_compiles.sample()
        self._matmul_default = jax.config.jax_default_matmul_precision
        if arguments.precision in MATMUL:
            # On GPUs float32 products use TF32 by default; a case named fp32 must not.
            jax.config.update("jax_default_matmul_precision", MATMUL[arguments.precision])
        devices.join(arguments)
        self._on_gpu = arguments.device == "gpu"
        self._threads = arguments.threads_per_rank * arguments.devices_per_process
        self._local = jax.local_devices()
        self.job = JaxJob.of(
            arguments,
            device=self._local[0],
            dtype=jnp.float16 if arguments.precision == "pure_fp16" else jnp.float32,
        )
        self._rows = BatchRows(self.job.batch_size_per_device, self.job.batch_dimension)
        self._watch = watch.Watch(self._parameters, self._expect_rows)
        self._reduction = devices.Reduction()
        self._settled = devices.Settled(on_gpu=self._on_gpu)
        self._peak = PeakWithoutCanary(self._peaks)

    def _parameters(self) -> Any:
        return [] if self.job.declared is None else self.job.declared()

    def _expect_rows(self, shapes: Sequence[Sequence[int]]) -> None:
        rows = self._rows.rows_of([Shaped(shape) for shape in shapes])
        self.job.feed.rows.expect(rows, self._rows.whole, "a compiled function's input")

    def facts(self) -> FrameworkRecord:
        """Return versions, device and arithmetic defaults."""
        kinds = sorted({device.device_kind for device in self._local})
        record = FrameworkRecord(
            framework="jax",
            framework_version=jax.__version__,
            cuda=cuda_version(self._local[0]),
            backend=self._backend(),
            device=", ".join(map(str, self._local)),
            device_name=", ".join(kinds) if self._on_gpu else None,
            device_id=None,
            timing=on_cpu.HOST_CLOCK,
            tf32_default=self._matmul_default,
        )
        if not self._on_gpu:
            record["threads"] = self._threads
        return record

    def _backend(self) -> str | None:
        if jax.device_count() == 1:
            return None
        if self._on_gpu:
            return "nccl"
        if jax.process_count() == 1:
            return "xla"
        return str(jax.config.jax_cpu_collectives_implementation)

    def timer(self) -> Timer:
        """Return a timer on the host's clock, which waits for the devices at each lap.

        A call of a compiled function returns before its work is done, on CPUs too, and JAX shows
        no events of its streams.
        """
        return on_cpu.WaitingTimer(self.synchronise)

    def synchronise(self) -> None:
        """Wait until this process's devices have done all that was asked of them."""
        self._settled()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._reduction.mean(0.0)

    def keep_loss(self, loss: Any) -> Any:
        """Return the loss as a number: its array may be donated to the next step.

        It is waited for, as is the whole step afterwards.
        """
        if isinstance(loss, jax.Array) and loss.size == 1 and loss.is_fully_replicated:
            # NumPy would wait too, in C: the stack of a hung rank must name the call that waits
            jax.block_until_ready(loss)
            return float(np.asarray(loss.addressable_data(0)).reshape(()))
        if isinstance(loss, float):
            return loss
        raise no_loss(loss)

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        return float(kept)

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note the inputs of the first compiled function with matrix work."""
        return self._watch.first()

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count floating-point operations by dtype, from the jaxprs of what is called."""
        return self._watch.second()

    def model(self) -> ModelRecord:
        """Return what was watched, and the number of declared parameters."""
        record = ModelRecord(
            input_shapes=self._watch.shapes,
            flops_by_dtype=dict(self._watch.work.flops),
            parameter_count=sum(leaf.size for leaf in jax.tree.leaves(self._parameters())),
            held=watch.held(self._parameters()),
        )
        if self._watch.unwatched:
            record["unwatched"] = self._watch.unwatched
        if self._watch.work.uncounted:
            record["uncounted"] = dict(self._watch.work.uncounted)
        return record

    def arithmetic(self) -> ArithmeticRecord:
        """Return whether float32 products may use TF32 now, and the error of one product.

        And whether those of the step let it, each of which may say so for itself.
        """
        return {
            "tf32": {"matmul": jax.config.jax_default_matmul_precision not in _FLOAT32},
            "tf32_in_step": self._watch.work.tf32_seen(),
            "overrides": tf32_overrides(),
            "product_error": product_error(),
        }

    def checksum(self) -> Checksum | None:
        """Return a digest of the bytes of the declared parameters, in the order of their tree."""
        return None if self.job.declared is None else watch.checksum(self._parameters())

    def canary(self) -> CanaryRates:
        """Return the canary's rates."""
        with xla_compiles.paused(), self._peak.canary():
            return measure_canary(self._reduction, self.job.precision, on_gpu=self._on_gpu)

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        return self._reduction.mean(value)

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that reduces a float32 message over the devices, and waits for it."""
        with xla_compiles.paused():
            launch = self._reduction.launch_of(size_bytes // 4)

        def reduce() -> None:
            with xla_compiles.paused():
                jax.block_until_ready(launch())

        return reduce

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> CollectivesRecord:
        """Return the median of a few steps alone.

        The averaging is part of a compiled program, from which it cannot be taken out.
        """
        self.barrier()
        timer = self.timer()
        timer.start()
        for _ in range(_SAMPLED):
            self.keep_loss(step())
            timer.lap()
        return CollectivesRecord(
            method="",
            iterations=_SAMPLED,
            step_seconds=statistics.median(seconds for seconds, _ in timer.read()),
            own_seconds=None,
            collective_seconds=None,
        )

    def profile(self, step: Callable[[], Any], folder: Path) -> ProfileRecord:
        """Return what ``jax.profiler`` shows of a few steps."""
        # Nothing of it is loaded in a run that is judged
        from pytest_dlperf.worker.frameworks.jax.profile import profile

        return profile(self, step, folder)

    def release_memory(self) -> None:
        """Do nothing: JAX keeps what it took at its start."""

    def reset_peak_memory(self) -> None:
        """Do nothing: neither a process's peak nor that of a device of JAX can be reset."""

    def peak_memory(self) -> MemoryRecord:
        """Return the largest peak of this rank's devices, or the process's resident set."""
        if not self._on_gpu:
            return {"bytes": on_cpu.peak_resident_set_bytes(), "kind": "resident-set"}
        return {"bytes": self._peak.largest_bytes(), "kind": "gpu-allocated"}

    def _peaks(self) -> list[int]:
        if not self._on_gpu:
            return []
        return [(one.memory_stats() or {}).get("peak_bytes_in_use", 0) for one in self._local]

    def waits_within(self, step: Callable[[], Any]) -> bool | None:
        """Return None: the framework does not say it."""
        return None

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Spin on the CPU after the devices are done: JAX has no kernel that waits."""

        def after_the_step(step_s: float) -> None:
            self.synchronise()
            on_cpu.spin(share * (typical_s if self._on_gpu else step_s))

        return after_the_step

    def close(self) -> None:
        """Leave together: a rank whose peer left before it is ended by JAX."""
        self.barrier()
        if jax.process_count() > 1:
            jax.distributed.shutdown()


_SAMPLED: Final = 5
