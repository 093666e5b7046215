"""The device that a user's own program trains on, and the framework that it has imported.

Nothing is imported here: a program that trains has its framework in ``sys.modules``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire_records import CanaryRates, FrameworkRecord, MemoryRecord
from pytest_dlperf.worker.frameworks import on_cpu
from pytest_dlperf.worker.frameworks.base import EventTimer, Timer


class Device(Protocol):
    """A device, as the marks use it."""

    #: The clock that times laps: ``device events`` or ``host clock``.
    timing: str

    def timer(self) -> Timer:
        """Return a new timer, on events where the device has some that tell time."""
        ...

    def synchronise(self) -> None:
        """Wait until all work given to it is done."""
        ...

    def reset_peak_memory(self) -> None:
        """Begin to look for the peak again, where the device can do that."""
        ...

    def peak_memory(self) -> MemoryRecord:
        """Return the peak of memory."""
        ...

    def canary(self, precision: str) -> CanaryRates:
        """Return the canary's rates; raise ``RuntimeError`` where there is none."""
        ...


class _NoCanary:
    def canary(self, precision: str) -> CanaryRates:
        raise RuntimeError(
            "canary() is for programs in PyTorch that have taken their GPU: call it once the "
            "model is there, or leave it out"
        )


class _Cpu(_NoCanary):
    timing = on_cpu.HOST_CLOCK

    def timer(self) -> Timer:
        return on_cpu.CpuTimer()

    def synchronise(self) -> None:
        pass

    def reset_peak_memory(self) -> None:
        pass

    def peak_memory(self) -> MemoryRecord:
        return MemoryRecord(bytes=on_cpu.peak_resident_set_bytes(), kind="resident-set")


class _Cuda(_NoCanary):
    """A GPU by ``torch.cuda`` or ``paddle.device.cuda``."""

    def __init__(self, cuda: Any, event: Callable[[], Any]) -> None:
        """``event`` makes an event that measures time."""
        self._cuda, self._event = cuda, event
        self.timing = on_cpu.DEVICE_EVENTS if self._events_tell_time() else on_cpu.HOST_CLOCK

    def _events_tell_time(self) -> bool:
        """Return whether the time between two events can be read: in Paddle 2.6 it is 0."""
        begin = self._recorded()
        self._cuda.synchronize()
        end = self._recorded()
        self._cuda.synchronize()
        try:
            return bool(begin.elapsed_time(end) > 0)
        except (AttributeError, TypeError):
            return False

    def _recorded(self) -> Any:
        event = self._event()
        event.record()
        return event

    def timer(self) -> Timer:
        if self.timing == on_cpu.HOST_CLOCK:
            return on_cpu.WaitingTimer(self.synchronise)
        return EventTimer(self._recorded, self.synchronise)

    def synchronise(self) -> None:
        self._cuda.synchronize()

    def reset_peak_memory(self) -> None:
        reset = getattr(self._cuda, "reset_peak_memory_stats", None) or getattr(
            self._cuda, "reset_max_memory_allocated", None
        )
        if reset is not None:
            reset()

    def peak_memory(self) -> MemoryRecord:
        return MemoryRecord(bytes=int(self._cuda.max_memory_allocated()), kind="gpu-allocated")


class _TorchCuda(_Cuda):
    def canary(self, precision: str) -> CanaryRates:
        # Nothing of it is loaded in a program that does not ask
        from pytest_dlperf.worker.frameworks.torch.framework import measure_canary

        device = sys.modules["torch"].device("cuda", self._cuda.current_device())
        return measure_canary(device, precision, on_gpu=True, links=False)


class _TensorflowGpus(_NoCanary):
    timing = on_cpu.HOST_CLOCK

    def timer(self) -> Timer:
        # As in a workload: TensorFlow shows no events of its streams.
        return on_cpu.WaitingTimer(self.synchronise)

    def __init__(self, tf: Any, names: list[str]) -> None:
        self._tf = tf
        self._names = names

    def synchronise(self) -> None:
        if hasattr(self._tf.test.experimental, "sync_devices"):
            self._tf.test.experimental.sync_devices()
            return
        for name in self._names:  # TensorFlow 2.12: reading a value waits for earlier work
            with self._tf.device(name):
                (self._tf.zeros(()) + 1).numpy()

    def reset_peak_memory(self) -> None:
        for name in self._names:
            self._tf.config.experimental.reset_memory_stats(name)

    def peak_memory(self) -> MemoryRecord:
        info = self._tf.config.experimental.get_memory_info
        peak = max(int(info(name)["peak"]) for name in self._names)
        return MemoryRecord(bytes=peak, kind="gpu-allocated")


class _Jax(_NoCanary):
    """Devices of JAX, CPUs too: a call of a compiled function returns before its work is done."""

    timing = on_cpu.HOST_CLOCK

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def timer(self) -> Timer:
        # As in a workload: JAX shows no events of its streams.
        return on_cpu.WaitingTimer(self.synchronise)

    def synchronise(self) -> None:
        self._jax.block_until_ready(self._jax.live_arrays())

    def reset_peak_memory(self) -> None:
        pass

    def peak_memory(self) -> MemoryRecord:
        stats = [device.memory_stats() or {} for device in self._jax.local_devices()]
        peak = max(device_stats.get("peak_bytes_in_use", 0) for device_stats in stats)
        return MemoryRecord(bytes=peak, kind="gpu-allocated") if peak else _Cpu().peak_memory()


def device_of(framework: str) -> Device:
    """Return the device of a program that has trained a step; the case's framework comes first.

    TensorFlow is asked only if the case names it: other programs may import it for its summaries
    alone, and a question would make it take the whole GPU. JAX is asked where it has devices.
    A framework without an entry here is timed on the host.
    """
    finders = {"tensorflow": _tensorflow, "torch": _torch, "paddle": _paddle, "jax": _jax}
    order = [framework, *(name for name in ("torch", "paddle", "jax") if name != framework)]
    for name in order:
        module = sys.modules.get(name)
        finder = finders.get(name)
        device = finder(module) if finder is not None and module is not None else None
        if device is not None:
            return device
    return _Cpu()


def _torch(torch: Any) -> Device | None:
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()
    if not in_use:
        return None
    return _TorchCuda(torch.cuda, lambda: torch.cuda.Event(enable_timing=True))


def _paddle(paddle: Any) -> Device | None:
    in_use = paddle.device.get_device().startswith("gpu")
    if not in_use:
        return None
    return _Cuda(paddle.device.cuda, lambda: paddle.device.Event(enable_timing=True))


def _tensorflow(tf: Any) -> Device | None:
    gpus = tf.config.list_logical_devices("GPU")
    return _TensorflowGpus(tf, [gpu.name for gpu in gpus]) if gpus else None


def _jax(jax: Any) -> Device | None:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    # A question for the devices would make JAX take the GPU of a program that does not use it
    in_use = getattr(bridge, "backends_are_initialized", lambda: False)()
    return _Jax(jax) if in_use else None


def framework_record(of_case: str, device: Device) -> FrameworkRecord:
    """Return which framework the program has imported, the case's before others.

    ``program`` if none is known.
    """
    for name in (of_case, *FRAMEWORKS):
        module = sys.modules.get(name)
        if module is not None:
            version = getattr(module, "__version__", None)
            record = FrameworkRecord(framework=name, framework_version=version, device_id=None)
            if not isinstance(device, _Cpu):
                record["timing"] = device.timing
                if name == "torch" and module.cuda.is_initialized():
                    record.update(_cuda_record(module))
            return record
    return FrameworkRecord(framework="program", framework_version=None, device_id=None)


def _cuda_record(torch: Any) -> FrameworkRecord:
    """Return what PyTorch says of its libraries and of the GPU that the program uses."""
    nccl = torch.cuda.nccl.version() if torch.distributed.is_nccl_available() else None
    uuid = getattr(torch.cuda.get_device_properties(None), "uuid", None)
    return FrameworkRecord(
        framework="torch",
        framework_version=torch.__version__,
        cuda=torch.version.cuda,
        rocm=torch.version.hip,
        cudnn=torch.backends.cudnn.version(),
        nccl=".".join(map(str, nccl)) if nccl else None,
        device_name=torch.cuda.get_device_name(None),
        device_id=None if uuid is None else str(uuid),
    )
