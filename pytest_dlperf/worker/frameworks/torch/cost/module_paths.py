"""Which module an operator belongs to, forward and backward, and which part of the step."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pytest_dlperf.worker.cost.folded_paths import folded, layers

#: Modules whose one child is the model: the attribute with that child.
_WRAPPERS: Final = ("module", "_orig_mod")


class ModulePaths:
    """Follows the forward pass through the modules of a model.

    In the backward pass, the node of autograd that runs has the number of its operator, which
    grows as the forward pass goes: it lies between those at which a module began and ended.
    """

    def __init__(self) -> None:
        #: Outermost modules that were called; held, so that their ids stay theirs.
        self.outermost: list[torch.nn.Module] = []
        #: Optimizers that made a step.
        self.optimizers: list[Any] = []
        #: What tensors are held for that are made now; empty: as the phase says.
        self.kind = ""
        self._names: dict[int, str] = {}
        self._raw: list[str] = []
        self._parameter_paths: dict[int, str] = {}
        self._active: list[str] = []
        self._optimizing = 0
        self._numbers: list[int] = []
        self._paths: list[str] = []

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follow what modules and optimizers do while open."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(self._begin_update),
            register_optimizer_step_post_hook(self._end_update),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def now(self) -> tuple[str, str]:
        """Return the folded path and the phase of what runs now."""
        if self._optimizing:
            return "", "optimizer"
        is_backward = torch._C._current_graph_task_id() != -1
        if self._active:
            return self._active[-1], "backward" if is_backward else "forward"
        if is_backward:
            return self._node_path(torch._C._current_autograd_node()), "backward"
        return "", "rest"

    def parameter_path(self, parameter: torch.Tensor) -> str:
        """Return the folded path of the module that has ``parameter``; empty if none has."""
        return self._parameter_paths.get(id(parameter), "")

    def module_path(self, module: torch.nn.Module) -> str:
        """Return the folded path of ``module``; empty if it is not known."""
        return self._names.get(id(module), "")

    @contextlib.contextmanager
    def within(self, module: torch.nn.Module, kind: str) -> Iterator[None]:
        """Take what happens while open for work of ``module``, and new tensors for ``kind``."""
        self._active.append(self.module_path(module))
        before, self.kind = self.kind, kind
        try:
            yield
        finally:
            self._active.pop()
            self.kind = before

    def layers(self, used: set[str]) -> dict[str, int]:
        """Return how many modules each path of ``used`` stands for."""
        return layers(self._raw, used)

    def know(self, module: torch.nn.Module) -> None:
        """Name ``module``, by its class, and its parts, by their paths."""
        root = module
        wrappers = [module]
        while (inner := _inner(root)) is not None:
            root = inner
            wrappers.append(root)
        is_known = id(root) in self._names
        for wrapper in wrappers:
            self._names.setdefault(id(wrapper), type(root).__name__)
        # Held, so that their ids stay theirs
        self.outermost.append(module)
        if is_known:
            return
        for path, part in root.named_modules():
            if path:
                self._names.setdefault(id(part), folded(path))
                self._raw.append(path)
            for parameter in part.parameters(recurse=False):
                self._parameter_paths.setdefault(id(parameter), self._names[id(part)])

    def forget_graph(self) -> None:
        """Forget where modules began and ended: no graph of before is used any more."""
        self._numbers, self._paths = [], []

    def _enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        if not self._active and id(module) not in self._names:
            self.know(module)
        above = self._active[-1] if self._active else ""
        self._active.append(self._names.get(id(module), above))
        self._mark()

    def _leave(self, _module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        if self._active:
            self._active.pop()
        self._mark()

    def _mark(self) -> None:
        self._numbers.append(torch.autograd._get_sequence_nr())
        self._paths.append(self._active[-1] if self._active else "")

    def _node_path(self, node: Any) -> str:
        if node is None:
            return ""
        if hasattr(node, "variable"):
            return self.parameter_path(node.variable)
        place = bisect.bisect_right(self._numbers, node._sequence_nr()) - 1
        return self._paths[place] if place >= 0 else ""

    def _begin_update(self, optimizer: Any, *_: Any) -> None:
        self._optimizing += 1
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)

    def _end_update(self, *_: Any) -> None:
        self._optimizing -= 1


def _inner(module: torch.nn.Module) -> torch.nn.Module | None:
    kinds = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    if isinstance(module, kinds) or type(module).__name__ == "OptimizedModule":
        for name in _WRAPPERS:
            if isinstance(inner := module._modules.get(name), torch.nn.Module):
                return inner
    return None
