"""Looks at what a PyTorch training really does, in two warm-up iterations."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_dlperf.worker.frameworks.first_call import FirstCall, shapes_in


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(torch.nn.Module, lambda values: shapes_in(values, torch.Tensor))


class FlopsByDtype(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """While open, counts floating-point operations of matrix products and convolutions.

    By the dtype of their first tensor; formulas are those of ``torch.utils.flop_counter``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()
        self._eager = contextlib.ExitStack()

    def __enter__(self) -> FlopsByDtype:
        # A compiled function that is called within a dispatch mode is never compiled again, and
        # what would be measured then is not what was asked for. PyTorch 2.6 has the remedy.
        set_stance = getattr(torch.compiler, "set_stance", None)
        if set_stance is not None and "torch._dynamo" in sys.modules:
            self._eager.enter_context(set_stance("force_eager"))
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._eager.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do the operation, then count it."""
        # Imported when needed: it is slow, and the first step should not wait for it.
        from torch.utils.flop_counter import flop_registry

        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            dtype = next(a.dtype for a in args if isinstance(a, torch.Tensor))
            self.flops[str(dtype).removeprefix("torch.")] += formula(*args, **kwargs, out_val=out)
        return out
