"""Looks at the rows of a PyTorch model's inputs in every iteration, by shapes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.jit import _recursive as scripting

from pytest_dlperf.worker.batch_rows import BatchRows, RowsOfIteration, Shaped
from pytest_dlperf.worker.frameworks.base import FirstCall, shapes_in
from pytest_dlperf.worker.frameworks.torch.watch import compiles


def follow_rows(first: FirstCall, counted: BatchRows, rows: RowsOfIteration) -> bool:
    """Look from now on at the inputs of the layer of ``first``; return whether that is done.

    Its inputs then show where the rows are. Not within what torch.compile traces, which must be
    the training's own code: there a model that ``torch.compile(model)`` returned is looked at from
    outside, and no other.
    """
    if not first.layers or counted.rows_of(_shaped(first.shapes or [])) is None:
        return False
    layer = first.layers[0]
    if compiles() and not _is_compiled_inside(layer):
        return False
    _keep_from_torchscript()
    hook = _RowsHook(counted, rows, is_training=layer.training)
    try:
        layer.register_forward_pre_hook(hook, with_kwargs=True)
    except RuntimeError:
        return False  # a model of TorchScript takes no hooks
    return True


def _keep_from_torchscript() -> None:
    """Take these hooks off a model for as long as ``torch.jit.script`` compiles it.

    It compiles the hooks of a model as well, and raises where one is not in its language.
    """
    create = scripting.create_script_module
    if hasattr(create, "__wrapped__"):
        return

    @functools.wraps(create)
    def created(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        with _without_hooks(model):
            return create(model, *args, **kwargs)

    scripting.create_script_module = created


@contextlib.contextmanager
def _without_hooks(model: torch.nn.Module) -> Iterator[None]:
    taken = [
        (layer._forward_pre_hooks, key, hook)
        for layer in model.modules()
        for key, hook in layer._forward_pre_hooks.items()
        if isinstance(hook, _RowsHook) or hook is _nothing
    ]
    for hooks, key, _ in taken:
        del hooks[key]
    try:
        yield
    finally:
        for hooks, key, hook in taken:
            hooks[key] = hook


def _shaped(shapes: Sequence[Sequence[int]]) -> list[Shaped]:
    return [Shaped(shape) for shape in shapes]


def _is_compiled_inside(layer: torch.nn.Module) -> bool:
    from torch._dynamo.eval_frame import OptimizedModule

    return isinstance(layer, OptimizedModule)


class _RowsHook:
    """Called before the model; a copy of the model has none, nor has one that is stored."""

    def __init__(self, counted: BatchRows, rows: RowsOfIteration, *, is_training: bool) -> None:
        self._counted, self._rows = counted, rows
        # Of a teacher, or of a frozen part, that is false in the training as well
        self._is_training = is_training

    def __call__(
        self, layer: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        # What is called again in an iteration is computed of parts, or again
        if layer.training == self._is_training and not self._rows.called:
            self._rows.called = True
            counted = self._counted
            try:
                rows = counted.rows_of(_shaped(shapes_in([*args, *kwargs.values()], torch.Tensor)))
            except RuntimeError:
                rows = None  # of a nested tensor, which has no shape
            self._rows.expect(rows, counted.whole, "the model's input")

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        return _nothing

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _stored, ()


def _nothing(layer: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Be the hook of a copy."""


def _stored() -> Callable[..., None]:
    return _nothing
