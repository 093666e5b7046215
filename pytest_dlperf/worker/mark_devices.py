"""The device that a marked program trains on, found without waking a framework up."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from pytest_dlperf.worker.frameworks import on_cpu


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
