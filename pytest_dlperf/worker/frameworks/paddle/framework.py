"""Paddle in one rank."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.distributed as dist

from pytest_dlperf.core.wire_model import ArithmeticRecord, Checksum, ModelRecord
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CollectivesRecord,
    FrameworkRecord,
    MemoryRecord,
)
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.frameworks.base import (
    EventTimer,
    PeakWithoutCanary,
    Timer,
    checksum_of,
    no_loss,
    tf32_overrides,
)
from pytest_dlperf.worker.frameworks.paddle import nccl_of_paddle, watch
from pytest_dlperf.worker.frameworks.paddle.job import LossScaler, PaddleJob

_PRODUCTS = 100


def events_tell_time() -> bool:
    """Return whether the time between two events can be read; asked once, on the GPU.

    Found by trying: in Paddle 2.6 ``elapsed_time`` is there, and is always 0.
    """
    square = paddle.ones([256, 256])
    begin = _event()
    paddle.matmul(square, square)
    end = _event()
    paddle.device.synchronize()
    try:
        return bool(begin.elapsed_time(end) > 0)
    except (AttributeError, TypeError):
        return False  # an event of some version that was never asked for its time


def gpu_timer(*, events: bool) -> Timer:
    """Return a timer on ``events``, else on the host's clock, which waits at each lap."""
    if events:
        return EventTimer(_event, paddle.device.synchronize)
    return on_cpu.WaitingTimer(paddle.device.synchronize)


def _event() -> Any:
    event = paddle.device.Event(enable_timing=True)
    event.record()
    return event


def gpu_delay(seconds: float, *, events: bool) -> Callable[[float], None]:
    """Return a function that keeps the GPU busy for about ``seconds``: Paddle has no sleep."""
    square = paddle.ones([1024, 1024])
    timer = gpu_timer(events=events)
    for _ in range(2):  # the first time is not timed: it sets the product up
        timer.start()
        for _ in range(_PRODUCTS):
            paddle.matmul(square, square)
    timer.lap()
    products = round(seconds / (timer.read()[0][0] / _PRODUCTS))

    def delay(_step_s: float) -> None:
        for _ in range(products):
            paddle.matmul(square, square)

    return delay


def measure_canary(precision: str, *, on_gpu: bool) -> CanaryRates:
    """Return the canary's rates on this rank."""
    work = canary.work_of(on_gpu=on_gpu)
    sides = [work.side, work.side]
    with paddle.no_grad(), paddle.amp.auto_cast(enable=False):
        if on_gpu:
            # Not paddle.randn: the training's random numbers must not depend on the canary
            random = np.random.default_rng(1)
            dtype = canary.HALF.get(precision, "float32")
            left, right = (
                paddle.to_tensor(random.standard_normal(sides, "float32")).astype(dtype)
                for _ in range(2)
            )
        else:
            left, right = paddle.ones(sides), paddle.ones(sides)
        source = paddle.ones([work.copied])
        message = paddle.zeros([work.reduced])
        launches = canary.Launches(
            matmul=lambda: paddle.matmul(left, right),
            copy=source.clone,
            all_reduce=(lambda: dist.all_reduce(message)) if dist.get_world_size() > 1 else None,
            wait=lambda _: paddle.device.synchronize() if on_gpu else None,
        )
        return canary.measure(launches, work, on_gpu=on_gpu)


def product_error() -> float:
    """Return the relative error of one float32 product, as in ``torch/watch.py``."""
    with paddle.no_grad(), paddle.amp.auto_cast(enable=False):
        left, right = (paddle.randn([256, 256], dtype="float32") for _ in range(2))
        product = paddle.matmul(left, right).astype("float64")
        exact = paddle.matmul(left.astype("float64"), right.astype("float64"))
        return float((paddle.norm(product - exact) / paddle.norm(exact)).item())


class Paddle:
    """Paddle as the loop sees it."""

    def __init__(self, arguments: Arguments) -> None:
        self._on_gpu = arguments.device == "gpu"
        self._threads = arguments.threads_per_rank
        paddle.set_device(_device(arguments))
        self._events = self._on_gpu and events_tell_time()
        if arguments.world_size > 1:
            _join(arguments)
        paddle.seed(arguments.seed)
        self.job = PaddleJob.of(
            arguments,
            device=paddle.get_device(),
            dtype="float16" if arguments.precision == "pure_fp16" else "float32",
            scaler=LossScaler() if arguments.precision == "amp" else None,
        )
        self._shapes = watch.first_call()
        self._flops = watch.FlopsByDtype()
        self._peak = PeakWithoutCanary(self._allocated)

    def facts(self) -> FrameworkRecord:
        """Return versions, device and arithmetic defaults."""
        properties = paddle.device.cuda.get_device_properties() if self._on_gpu else None
        uuid = getattr(properties, "uuid", None)
        return {
            "framework": "paddle",
            "framework_version": paddle.__version__,
            "cuda": paddle.version.cuda() if paddle.is_compiled_with_cuda() else None,
            "cudnn": paddle.version.cudnn() if self._on_gpu else None,
            "nccl": nccl_of_paddle(paddle.version) if self._on_gpu else None,
            "backend": dist.get_backend().lower() if dist.is_initialized() else None,
            "device": self.job.device,
            "device_name": properties.name if properties else None,
            "device_id": None if uuid is None else str(uuid),
            "timing": on_cpu.DEVICE_EVENTS if self._events else on_cpu.HOST_CLOCK,
            "tf32_default": {"NVIDIA_TF32_OVERRIDE": os.environ.get("NVIDIA_TF32_OVERRIDE")}
            if self._on_gpu
            else None,
            "threads": self._threads,
        }

    def timer(self) -> Timer:
        """Return a timer on CUDA events where they tell time, else on the host's clock."""
        return gpu_timer(events=self._events) if self._on_gpu else on_cpu.CpuTimer()

    def synchronise(self) -> None:
        """Wait for the GPU; a CPU has nothing to wait for."""
        if self._on_gpu:
            paddle.device.synchronize()

    def barrier(self) -> None:
        """Wait for all ranks."""
        if dist.is_initialized():
            dist.all_reduce(paddle.zeros([1]))
            self.synchronise()

    def keep_loss(self, loss: Any) -> Any:
        """Return the loss without its graph; on the CPU a number, as in PyTorch.

        Nothing waits for the device.
        """
        if isinstance(loss, paddle.Tensor) and loss.size == 1:
            # A copy: a CUDA graph writes every loss into the same memory.
            if not loss.place.is_cpu_place():
                return loss.detach().clone()
            return self.loss_value(loss)
        if isinstance(loss, float):
            return loss
        raise no_loss(loss)

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        return kept if isinstance(kept, float) else float(kept.item())

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note the shapes of the first layer call's tensors."""
        return self._shapes

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count floating-point operations by dtype."""
        return self._flops

    def model(self) -> ModelRecord:
        """Return what was watched, and the number of parameters that data parallelism trains."""
        layers = self.job.layers or self._shapes.layers
        trained = [p for layer in layers for p in layer.parameters() if not p.stop_gradient]
        record = ModelRecord(
            input_shapes=self._shapes.shapes,
            flops_by_dtype=dict(self._flops.flops),
            parameter_count=sum(int(p.size) for p in trained),
        )
        if self._flops.uncounted:
            record["uncounted"] = dict(self._flops.uncounted)
        return record

    def arithmetic(self) -> ArithmeticRecord:
        """Return what NVIDIA's variable leaves to the libraries, and the error of one product.

        Paddle has no flag for TF32.
        """
        overrides = tf32_overrides()
        allowed = overrides.get("NVIDIA_TF32_OVERRIDE") != "0"
        return {
            "tf32": {"matmul": allowed, "cudnn": allowed} if self._on_gpu else {},
            "overrides": overrides,
            "product_error": product_error(),
        }

    def checksum(self) -> Checksum | None:
        """Return a digest of the bytes of the replicated parameters, in order of declaration."""
        if self.job.declared is None:
            return None
        return checksum_of(parameter.numpy().tobytes() for parameter in self.job.declared)

    def canary(self) -> CanaryRates:
        """Return the canary's rates."""
        with self._peak.canary():
            return measure_canary(self.job.precision, on_gpu=self._on_gpu)

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        return watch.mean_over_ranks(value)

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that starts to reduce a float32 message over the ranks."""
        return watch.all_reduce_of(size_bytes)

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> CollectivesRecord:
        """Return what steps take with and without averaging."""
        return watch.sample_collectives(self, step, [*self.job.wrapped, *self._shapes.layers])

    def profile(self, step: Callable[[], Any], folder: Path) -> ProfileRecord:
        """Return what paddle.profiler shows of a few more steps."""
        # Nothing of it is loaded in a run that is judged
        from pytest_dlperf.worker.frameworks.paddle.profile import profile

        return profile(self, step, [*self.job.layers, *self._shapes.layers], folder)

    def release_memory(self) -> None:
        """Give back what is cached and not in use."""
        if self._on_gpu:
            paddle.device.cuda.empty_cache()

    def reset_peak_memory(self) -> None:
        """Begin to look for the GPU's peaks, from Paddle 3 on; others cannot be reset."""
        if self._on_gpu and _RESETS_PEAKS:
            paddle.device.cuda.reset_max_memory_allocated()
            paddle.device.cuda.reset_max_memory_reserved()
            self._peak = PeakWithoutCanary(self._allocated)

    def _allocated(self) -> list[int]:
        return [paddle.device.cuda.max_memory_allocated()] if self._on_gpu else []

    def peak_memory(self) -> MemoryRecord:
        """Return bytes allocated on the GPU at the peak, or the process's largest resident set.

        What is reserved is that of the training where it can be reset, and not told elsewhere.
        """
        if not self._on_gpu:
            return {"bytes": on_cpu.peak_resident_set_bytes(), "kind": "resident-set"}
        record = MemoryRecord(bytes=self._peak.largest_bytes(), kind="gpu-allocated")
        if _RESETS_PEAKS:
            record["reserved_bytes"] = paddle.device.cuda.max_memory_reserved()
        return record

    def waits_within(self, step: Callable[[], Any]) -> bool | None:
        """Return None: the framework does not say it."""
        return None

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Keep the device that trains busy: products on the GPU, or spinning on the CPU."""
        if self._on_gpu:
            return gpu_delay(share * typical_s, events=self._events)
        return lambda step_s: on_cpu.spin(share * step_s)

    def close(self) -> None:
        """Leave together: gloo aborts a rank whose peer left before it."""
        self.barrier()


#: Whether this Paddle can look for a new peak of its memory, as 3 can and 2.6 cannot.
_RESETS_PEAKS = hasattr(paddle.device.cuda, "reset_max_memory_reserved")


def _device(arguments: Arguments) -> str:
    if arguments.device == "cpu":
        return "cpu"
    if not paddle.is_compiled_with_cuda():
        raise WorkerFailure(
            "device-unusable",
            f"paddle {paddle.__version__} is built without CUDA and cannot use a GPU; install "
            "paddlepaddle-gpu, or name CPU processes with --cpus",
        )
    devices = paddle.device.cuda.device_count()
    # The launcher names each rank's GPU, and may show it that one alone.
    index = dist.ParallelEnv().device_id
    if index >= devices:
        raise WorkerFailure(
            "device-unusable",
            f"local rank {arguments.local_rank} has no GPU: paddle {paddle.__version__} "
            f"(CUDA {paddle.version.cuda()}) sees {devices}; look at CUDA_VISIBLE_DEVICES and the "
            "driver",
        )
    return f"gpu:{index}"


def _join(arguments: Arguments) -> None:
    dist.init_parallel_env()
    if dist.get_world_size() != arguments.world_size:
        raise WorkerFailure(
            "world-size-mismatch",
            f"the process group has {dist.get_world_size()} ranks, the case has "
            f"{arguments.world_size}",
        )
