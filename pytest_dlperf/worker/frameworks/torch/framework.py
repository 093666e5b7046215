"""PyTorch in one rank."""

from __future__ import annotations

import contextlib
import datetime
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from pytest_dlperf.core.wire_model import ArithmeticRecord, Checksum, ModelRecord
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CollectivesRecord,
    FrameworkRecord,
    MemoryRecord,
)
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.batch_rows import BatchRows
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.frameworks.base import (
    EventTimer,
    Timer,
    gpu_of,
    no_loss,
    tf32_overrides,
)
from pytest_dlperf.worker.frameworks.torch import watch
from pytest_dlperf.worker.frameworks.torch.followed_rows import follow_rows
from pytest_dlperf.worker.frameworks.torch.job import TorchJob
from pytest_dlperf.worker.frameworks.torch.watch import checksum


def measure_canary(
    device: torch.device, precision: str, *, on_gpu: bool, links: bool = True
) -> CanaryRates:
    """Return the canary's rates on this rank; all ranks are needed for those of ``links``."""
    work = canary.work_of(on_gpu=on_gpu)
    sides = work.side, work.side
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        if on_gpu:
            # The training's random numbers must not depend on the canary
            generator = torch.Generator(device).manual_seed(1)
            dtype = getattr(torch, canary.HALF.get(precision, "float32"))
            factors = [
                torch.randn(sides, generator=generator, device=device).to(dtype) for _ in range(2)
            ]
        else:
            factors = [torch.ones(sides, device=device) for _ in range(2)]
        left, right = factors
        product = torch.empty_like(left)
        source = torch.ones(work.copied, device=device)
        target = torch.empty_like(source)
        message = torch.zeros(work.reduced, device=device)
        launches = canary.Launches(
            matmul=lambda: torch.mm(left, right, out=product),
            copy=lambda: target.copy_(source),
            all_reduce=(lambda: dist.all_reduce(message))
            if links and dist.is_initialized() and dist.get_world_size() > 1
            else None,
            wait=lambda _: torch.cuda.synchronize(device) if device.type == "cuda" else None,
        )
        return canary.measure(launches, work, on_gpu=on_gpu)


class Torch:
    """PyTorch as the loop sees it."""

    def __init__(self, arguments: Arguments) -> None:
        self._tf32_defaults = watch.tf32()
        if arguments.precision in {"fp32", "tf32"}:
            # PyTorch lets convolutions use TF32 by default; a case named fp32 must not.
            watch.set_tf32(on=arguments.precision == "tf32")
        torch.set_num_threads(arguments.threads_per_rank)
        self._device = _device(arguments)
        if arguments.world_size > 1:
            self._join(arguments)
        else:
            _offer_rendezvous()
        torch.manual_seed(arguments.seed)
        self.job = TorchJob.of(
            arguments,
            device=self._device,
            dtype=torch.float16 if arguments.precision == "pure_fp16" else torch.float32,
            scaler=torch.amp.GradScaler(self._device.type)
            if arguments.precision == "amp"
            else None,
        )
        self._watch = watch.Watch(is_alone=arguments.world_size == 1)
        self._is_followed = False
        self._watch.captures()

    def _join(self, arguments: Arguments) -> None:
        dist.init_process_group(
            timeout=datetime.timedelta(seconds=arguments.collective_timeout_s),
            **group_options(self._device),
        )
        if dist.get_world_size() != arguments.world_size:
            raise WorkerFailure(
                "world-size-mismatch",
                f"the process group has {dist.get_world_size()} ranks, the case has "
                f"{arguments.world_size}",
            )

    @property
    def _on_gpu(self) -> bool:
        return str(self._device.type) == "cuda"

    def facts(self) -> FrameworkRecord:
        """Return versions, device and arithmetic defaults."""
        # A build without NCCL, as Jetson's, raises.
        nccl = torch.cuda.nccl.version() if self._on_gpu and dist.is_nccl_available() else None
        return {
            "framework": "torch",
            "framework_version": torch.__version__,
            "cuda": torch.version.cuda,
            "rocm": torch.version.hip,
            "cudnn": torch.backends.cudnn.version() if self._on_gpu else None,
            "nccl": ".".join(map(str, nccl)) if nccl else None,
            "backend": _BACKENDS[self._device.type] if dist.is_initialized() else None,
            "device": str(self._device),
            "device_name": torch.cuda.get_device_name(self._device) if self._on_gpu else None,
            "device_id": _device_uuid(self._device) if self._on_gpu else None,
            "timing": on_cpu.DEVICE_EVENTS if self._on_gpu else on_cpu.HOST_CLOCK,
            "tf32_default": self._tf32_defaults,
            "threads": torch.get_num_threads(),
        }

    def timer(self) -> Timer:
        """Return a timer on CUDA events, or on the host's clock."""
        if not self._on_gpu:
            return on_cpu.CpuTimer()
        return EventTimer(_event, torch.cuda.synchronize)

    def synchronise(self) -> None:
        """Wait for the GPU; a CPU has nothing to wait for."""
        if self._on_gpu:
            torch.cuda.synchronize(self._device)

    def barrier(self) -> None:
        """Wait for all ranks."""
        if dist.is_initialized():
            dist.all_reduce(torch.zeros(1, device=self._device))
            self.synchronise()

    def keep_loss(self, loss: Any) -> Any:
        """Return the loss without its graph; nothing waits for the device.

        A loss on the CPU as a number: a tensor kept for each iteration fragments the heap between
        the training's own tensors, and the process grows.
        """
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            if loss.device.type == "cpu":
                return self.loss_value(loss)
            # A copy: a CUDA graph writes every loss into the same memory.
            return loss.detach().clone()
        if isinstance(loss, float):
            return loss
        raise no_loss(loss)

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        return float(kept.detach() if isinstance(kept, torch.Tensor) else kept)

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note the shapes of the first module call's tensors; later if it is compiled."""
        return self._followed(self._watch.first())

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count floating-point operations by dtype; compiled functions are plain Python then."""
        return self._followed(self._watch.second())

    @contextlib.contextmanager
    def _followed(self, watched: AbstractContextManager[Any]) -> Iterator[None]:
        """Look at the rows of the model's inputs from then on."""
        with watched:
            yield
        if not self._is_followed:
            job = self.job
            counted = BatchRows(job.rows_of_batch, job.batch_dimension)
            self._is_followed = follow_rows(self._watch.shapes, counted, job.feed.rows)

    def model(self) -> ModelRecord:
        """Return what was watched, and the number of parameters that data parallelism holds."""
        watched = self._watch
        modules = self.job.modules or watched.shapes.layers
        record = ModelRecord(
            input_shapes=watched.shapes.shapes,
            flops_by_dtype=dict(watched.arithmetic.flops),
            parameter_count=sum(p.numel() for module in modules for p in module.parameters()),
            held=watch.held(modules, self.job.shards),
        )
        if watch.trains_all(modules):
            record["forward_flops"] = dict(watched.arithmetic.forward)
        if watched.unwatched:
            record["unwatched"] = watched.unwatched
        if watched.arithmetic.uncounted:
            record["uncounted"] = dict(watched.arithmetic.uncounted)
        return record

    def arithmetic(self) -> ArithmeticRecord:
        """Return the flags for TF32, of CUDA also on a CPU, and the error of one product."""
        return {
            "tf32": watch.tf32(),
            "tf32_in_step": self._watch.arithmetic.tf32_seen(),
            "overrides": tf32_overrides(),
            "product_error": watch.product_error(self._device),
        }

    def checksum(self) -> Checksum | None:
        """Return a digest of the bytes of the replicated parameters, in order of declaration."""
        if self.job.declared is None and not self.job.shards:
            return None
        return checksum(self.job.declared or [], self.job.shards)

    def canary(self) -> CanaryRates:
        """Return the canary's rates."""
        return measure_canary(self._device, self.job.precision, on_gpu=self._device.type == "cuda")

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        return watch.mean_over_ranks(value, self._device)

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that starts to reduce a float32 message over the ranks."""
        return watch.all_reduce_of(size_bytes, self._device)

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> CollectivesRecord:
        """Return what steps take with and without averaging."""
        return watch.sample_collectives(
            self, step, [*self.job.wrapped, *self._watch.shapes.layers]
        )

    def profile(self, step: Callable[[], Any], folder: Path) -> ProfileRecord:
        """Return what torch.profiler shows of a few more steps."""
        # Nothing of it is loaded in a run that is judged
        from pytest_dlperf.worker.frameworks.torch.profile import profile

        return profile(self, step, [*self.job.modules, *self._watch.shapes.layers], folder)

    def release_memory(self) -> None:
        """Give back what is cached and not in use."""
        if self._on_gpu:
            torch.cuda.empty_cache()

    def reset_peak_memory(self) -> None:
        """Begin to look for the GPU's peak; a process's own cannot be reset."""
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats(self._device)

    def peak_memory(self) -> MemoryRecord:
        """Return bytes allocated on the GPU at the peak, or the process's largest resident set."""
        if self._on_gpu:
            return {
                "bytes": torch.cuda.max_memory_allocated(self._device),
                "reserved_bytes": torch.cuda.max_memory_reserved(self._device),
                "kind": "gpu-allocated",
            }
        return {"bytes": on_cpu.peak_resident_set_bytes(), "kind": "resident-set"}

    def waits_within(self, step: Callable[[], Any]) -> bool | None:
        """Do a step, and return whether PyTorch saw the host wait for its GPU.

        It sees ``.item()``, ``nonzero``, copies to the host and ``Stream.synchronize``; not
        ``torch.cuda.synchronize`` and events (``torch.cuda.set_sync_debug_mode``).
        """
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self.keep_loss(step())
            finally:
                torch.cuda.set_sync_debug_mode(before)
        return any(
            "called a synchronizing CUDA operation" in str(warning.message) for warning in messages
        )

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Spin on the device that trains: a GPU kernel of calibrated length, or the CPU."""
        if not self._on_gpu:
            return lambda step_s: on_cpu.spin(share * step_s)
        cycles = int(share * typical_s * _gpu_cycles_per_s(self._device))
        sleep = torch.cuda._sleep
        return lambda _step_s: sleep(cycles)

    def close(self) -> None:
        """Leave the process group, together: gloo aborts a rank whose peer left before it."""
        if dist.is_initialized():
            self.barrier()
            dist.destroy_process_group()


#: What carries the collectives of tensors on a device.
_BACKENDS: Final = {"cuda": "nccl", "cpu": "gloo"}


def group_options(device: torch.device) -> dict[str, Any]:
    """Return the backend of a process group whose ranks train on ``device``.

    On a GPU tensors of the host have a backend too, as in a group that PyTorch makes by itself:
    checkpoints, offloading and collectives of objects use them. With the device, NCCL connects at
    once rather than in the first step.
    """
    if device.type == "cpu":
        return {"backend": "gloo"}
    return {"backend": "cpu:gloo,cuda:nccl", "device_id": device}


def _offer_rendezvous() -> None:
    """Let a workload of one rank make process groups, as ``fully_shard`` does.

    Nothing is joined here. A launcher's own address counts; else the rank meets itself, on a port
    that is free.
    """
    if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
        os.environ.update(alone, MASTER_ADDR="127.0.0.1", MASTER_PORT="0")


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _device(arguments: Arguments) -> torch.device:
    if arguments.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = "without CUDA" if torch.version.cuda is None else f"for CUDA {torch.version.cuda}"
        raise WorkerFailure(
            "device-unusable",
            f"torch {torch.__version__} (built {built}) cannot use a GPU here; install a build "
            "for this driver, or name CPU processes with --cpus",
        )
    index = gpu_of(arguments.local_rank, torch.cuda.device_count())
    if index is None:
        raise WorkerFailure(
            "device-unusable",
            f"local rank {arguments.local_rank} has no GPU: torch sees "
            f"{torch.cuda.device_count()}; look at CUDA_VISIBLE_DEVICES",
        )
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def _device_uuid(device: torch.device) -> str | None:
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else str(uuid)


def _gpu_cycles_per_s(device: torch.device) -> float:
    cycles = 50_000_000
    torch.cuda._sleep(cycles // 10)
    begin = _event()
    torch.cuda._sleep(cycles)
    end = _event()
    torch.cuda.synchronize(device)
    return float(cycles / (begin.elapsed_time(end) / 1000))
