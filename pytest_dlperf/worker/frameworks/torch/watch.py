"""Looks at what a PyTorch training really does, in two warm-up iterations."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.frameworks.base import FirstCall, shapes_in


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(
        torch.nn.Module,
        lambda values: shapes_in(values, torch.Tensor),
        torch.compiler.is_compiling,
    )


class Watch:
    """Looks at two iterations of a training, and leaves what is compiled as it is.

    Without torch.compile: at the shapes in the first, at the arithmetic in the second. With it the
    first is left alone, since what Dynamo traces must be the training's own code; in the second,
    compiled functions run as plain Python, which compiles nothing and forgets nothing, and both
    are looked at. What replays a CUDA graph does nothing that can be seen: both are looked at when
    ``torch.cuda.graph`` captures it.
    """

    def __init__(self) -> None:
        self.shapes = first_call()
        self.arithmetic = FlopsByDtype()
        #: Why nobody looked, and what to do; empty otherwise.
        self.unwatched = ""
        self._restore: Callable[[], None] = lambda: None
        self._is_captured = False

    def captures(self) -> None:
        """Look at what ``torch.cuda.graph`` captures, from now until ``second``."""
        graph, watch = torch.cuda.graph, self
        enter, leave = graph.__enter__, graph.__exit__
        open_now: list[contextlib.ExitStack] = []

        def entered(capture: Any) -> Any:
            result = enter(capture)
            open_now.append(watch._captured())
            return result

        def left(capture: Any, *error: Any) -> Any:
            open_now.pop().close()
            return leave(capture, *error)

        def restore() -> None:
            graph.__enter__, graph.__exit__ = enter, leave

        graph.__enter__, graph.__exit__ = entered, left
        self._restore = restore

    def _captured(self) -> contextlib.ExitStack:
        opened = contextlib.ExitStack()
        if compiles():
            # What is captured must be the compiled code.
            self.unwatched = (
                "it replays a CUDA graph of a compiled function, in which no operation can be "
                'seen; let torch.compile(mode="reduce-overhead") capture it, or capture a '
                "function that is not compiled"
            )
            return opened
        if self.shapes.shapes is None:
            opened.enter_context(self.shapes)
        opened.enter_context(self.arithmetic)
        self._is_captured = True
        return opened

    def first(self) -> AbstractContextManager[Any]:
        """Return what is open in the first iteration."""
        return contextlib.nullcontext() if compiles() else self.shapes

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        """Look, while open, at what the first iteration has left to see; no longer at captures."""
        self._restore()
        with contextlib.ExitStack() as opened:
            if compiles():
                if not self._is_captured:
                    # A call in the first iteration was the compiler's own, if it began there.
                    self.shapes.shapes, self.shapes.layers = None, []
                if not hasattr(torch.compiler, "set_stance"):
                    # Within a dispatch mode a compiled function is never compiled again, and the
                    # rest of the training would be measured uncompiled.
                    self.unwatched = (
                        f"PyTorch {torch.__version__} cannot run a compiled function as plain "
                        "Python for one iteration, which 2.6 can; upgrade it"
                    )
                    yield
                    return
                opened.enter_context(torch.compiler.set_stance("force_eager"))
            if self.shapes.shapes is None:
                opened.enter_context(self.shapes)
            opened.enter_context(self.arithmetic)
            yield


def compiles() -> bool:
    """Return whether this process has functions of torch.compile, called or not yet.

    That Dynamo is imported does not mean it: PyTorch's optimizers import it.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    if compiling.sample().any:
        return True
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    # Functions that are kept from the compiler are there as well, with None or False.
    return any(map(callable, getattr(frames, "cached_backends", {}).values()))


#: Attention on CPUs -> the operation on GPUs that does the same.
_ATTENTION_ON_CPUS: Final = {
    "aten._scaled_dot_product_flash_attention_for_cpu": (
        torch.ops.aten._scaled_dot_product_flash_attention
    ),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}


class FlopsByDtype(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """While open, counts floating-point operations of matrix products and convolutions.

    By the dtype of their first tensor; formulas are those of ``torch.utils.flop_counter``. Of a
    DTensor the operations on the local shard are counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do the operation, then count it."""
        if any(hasattr(one, "_op_dispatcher") for one in types):
            # A DTensor does its work on its shard, in operations that come here in their turn.
            return NotImplemented
        # Imported when needed: it is slow, and the first step should not wait for it.
        from torch.utils.flop_counter import flop_registry

        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        # PyTorch has no formula for attention on CPUs, whose arguments begin as on GPUs.
        formula = flop_registry.get(_ATTENTION_ON_CPUS.get(str(packet), packet))
        if formula is not None:
            dtype = next(a.dtype for a in args if isinstance(a, torch.Tensor))
            self.flops[str(dtype).removeprefix("torch.")] += formula(*args, **kwargs, out_val=out)
        return out
