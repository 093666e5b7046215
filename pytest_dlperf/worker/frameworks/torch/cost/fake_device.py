"""The device of a trace: tensors that have shapes and no numbers, apart from those of the host.

PyTorch takes ``cpu`` and ``cpu:0`` for two devices where tensors are fake, and autograd works on
either, which it does not on fake ``cuda`` in a build for CPUs. So ``cpu:0`` is the device, and
``cpu`` is the host; the program sees ``cuda:0``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import optimizer as optimizers
from torch.utils import _foreach_utils as foreach
from torch.utils import _pytree as trees

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.replaced import given, replaced, wrapped

#: The device of a trace.
DEVICE: Final = torch.device("cpu", 0)
#: What the program sees of it.
SHOWN: Final = torch.device("cuda", 0)

#: Files of PyTorch that refuse tensors of any other device: synchronised batch normalisation.
_GPUS_ALONE: Final = "torch/nn/modules/batchnorm.py"


def is_on_device(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` is on the device of the trace, and not on its host."""
    return bool(getattr(tensor, "fake_device", None) == DEVICE)


def on_fake_device(values: Any) -> Any:
    """Return ``values`` with the device of the trace in place of any GPU."""
    return trees.tree_map_only(torch.device, _placed, values)


def _placed(device: torch.device) -> torch.device:
    return DEVICE if device.type == "cuda" else device


@contextlib.contextmanager
def fake_device(places: Places, *, as_gpu: bool) -> Iterator[None]:
    """Make every new tensor a fake one while open; ``as_gpu``: the program sees ``cuda:0``."""
    with contextlib.ExitStack() as opened:
        for owner, name, wrap in (
            (torch.nn.Module, "_apply", lambda _: _apply),
            (torch.amp.GradScaler, "__init__", _device_first),
            (torch.autocast, "__init__", _device_first),
            (torch, "tensor", _on_its_device),
            (torch, "as_tensor", _on_its_device),
        ):
            opened.enter_context(wrapped(owner, name, wrap))
        opened.enter_context(replaced(torch, "Generator", _Generator))
        # FSDP asks a stream for them, and in older versions those of CPUs have none
        for name in ("record_event", "wait_event"):
            opened.enter_context(given(torch.cpu.Stream, name, lambda *_: torch.cpu.Event()))
        if as_gpu:
            opened.enter_context(replaced(FakeTensor, "device", _shown_device(places)))
            opened.enter_context(replaced(FakeTensor, "is_cuda", _shown_is_cuda(places)))
            opened.enter_context(_foreach_as_on_gpus())
        # Its fallback runs an operator on zeros, which may be as large as the case
        mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
        opened.enter_context(mode)
        yield


def _apply(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
    """Do what ``Module._apply`` does: a parameter stays the same object where its type allows it.

    The original swaps fake tensors, which it refuses of those that something has a weak reference
    to, as ``FakeTensorMode`` has.
    """
    if recurse:
        for child in module.children():
            child._apply(function)
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            applied = function(parameter)
        if applied is parameter:
            continue
        if torch._has_compatible_shallow_copy_type(parameter, applied):
            parameter.data = applied
            if isinstance(applied, FakeTensor):
                parameter.fake_device = applied.fake_device
        else:
            module._parameters[name] = torch.nn.Parameter(applied, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


def _device_first(initialise: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor whose first argument is the type of a device take CUDA for the CPU."""

    @functools.wraps(initialise)
    def initialised(self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        for name in ("device", "device_type"):
            device = kwargs.pop(name, device)
        initialise(self, "cpu" if str(device).startswith("cuda") else device, *args, **kwargs)

    return initialised


def _on_its_device(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a constructor from numbers, which takes ``cpu:0`` for the host, make it there."""

    @functools.wraps(make)
    def made(data: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = make(data, *args, **kwargs)
        device = kwargs.get("device")
        if (
            device is not None
            and torch.device(device) == DEVICE
            and isinstance(tensor, FakeTensor)
        ):
            tensor.fake_device = DEVICE
        return tensor

    return made


class _Generator(torch.Generator):  # type: ignore[misc]  # torch is Any here
    """A generator, whose numbers nobody sees: of the host, on any device that it is asked for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return one of the host."""
        return super().__new__(cls, "cpu")


def _shown_device(places: Places) -> property:
    """Return the device of a fake tensor: its own for PyTorch, a GPU for the program."""
    own = FakeTensor.device.fget

    def device(tensor: Any) -> torch.device:
        is_at: torch.device = own(tensor)
        file = sys._getframe(1).f_code.co_filename
        if is_at == DEVICE and (places.is_program(file) or file.endswith(_GPUS_ALONE)):
            return SHOWN
        return is_at

    return property(device, FakeTensor.device.fset)


def _shown_is_cuda(places: Places) -> property:
    def is_cuda(tensor: Any) -> bool:
        return is_on_device(tensor) and places.is_program(sys._getframe(1).f_code.co_filename)

    return property(is_cuda)


@contextlib.contextmanager
def _foreach_as_on_gpus() -> Iterator[None]:
    """Let optimizers choose operators of many tensors by default, as they do on GPUs."""
    types = [
        list_ for list_ in (optimizers._foreach_supported_types, _types()) if list_ is not None
    ]

    def supported() -> list[str]:
        return ["cpu", "cuda"]

    name = "_get_foreach_kernels_supported_devices"
    with replaced(optimizers, name, supported), replaced(foreach, name, supported):
        for supported_types in types:
            supported_types.append(FakeTensor)
        try:
            yield
        finally:
            for supported_types in types:
                supported_types.remove(FakeTensor)


def _types() -> list[Any] | None:
    own: list[Any] | None = getattr(foreach, "_foreach_supported_types", None)
    return None if own is optimizers._foreach_supported_types else own
