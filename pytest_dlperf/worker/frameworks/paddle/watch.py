"""Looks at what a Paddle training really does, in two warm-up iterations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

import paddle
from paddle import _C_ops

from pytest_dlperf.worker.frameworks.base import FirstCall, shapes_in


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(paddle.nn.Layer, lambda values: shapes_in(values, paddle.Tensor))


class FlopsByDtype:
    """While open, counts floating-point operations of products and convolutions going forward.

    By the dtype of what they return: autocast casts inside the operator, where its inputs still
    look like float32. The operators are watched where Paddle's own layers and functions call
    them; ``x @ y`` is the one way around, so it is watched too.
    """

    def __init__(self) -> None:
        self.flops: Counter[str] = Counter()
        self._originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        for owner, name, per_element in _OPERATORS:
            original = getattr(owner, name, None)
            if original is not None:  # not every version has every operator
                self._originals.append((owner, name, original))
                setattr(owner, name, self._counting(original, per_element))

    def _counting(self, original: Any, per_element: Callable[..., int]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            dtype = str(out.dtype).removeprefix("paddle.")
            self.flops[dtype] += 2 * math.prod(out.shape) * per_element(*args, **kwargs)
            return out

        return count

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)
        self._originals.clear()


def _of_convolution(_x: Any, weight: Any, *_args: Any, **_kwargs: Any) -> int:
    return math.prod(weight.shape[1:])


def _of_product(x: Any, _y: Any, transpose_x: bool = False, *_args: Any, **_kwargs: Any) -> int:
    # Of a linear layer the third argument is the bias.
    return int(x.shape[-2 if transpose_x is True else -1])


#: Operators, and their multiply-adds for each element of the result.
_OPERATORS: tuple[tuple[Any, str, Callable[..., int]], ...] = (
    (_C_ops, "conv2d", _of_convolution),
    (_C_ops, "depthwise_conv2d", _of_convolution),
    (_C_ops, "depthwise_conv2d_bias", _of_convolution),
    (_C_ops, "conv3d", _of_convolution),
    (_C_ops, "matmul", _of_product),
    (_C_ops, "linear", _of_product),
    (paddle.Tensor, "__matmul__", _of_product),
)
