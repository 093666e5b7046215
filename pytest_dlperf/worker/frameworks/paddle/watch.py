"""Looks at what a Paddle training really does, in two warm-up iterations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

import paddle
from paddle import _C_ops


class FirstCall:
    """While open, notes the tensors that the first layer call is given.

    That is the outermost layer, positional and keyword tensors alike; layer hooks would
    not see the keyword ones.
    """

    def __init__(self) -> None:
        self.shapes: list[list[int]] | None = None
        self.layers: list[paddle.nn.Layer] = []
        self._original = paddle.nn.Layer.__call__

    def __enter__(self) -> None:
        def spy(layer: paddle.nn.Layer, *args: Any, **kwargs: Any) -> Any:
            paddle.nn.Layer.__call__ = self._original
            self.shapes = _tensor_shapes([*args, *kwargs.values()])
            self.layers = [layer]
            return self._original(layer, *args, **kwargs)

        paddle.nn.Layer.__call__ = spy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        paddle.nn.Layer.__call__ = self._original


def _tensor_shapes(values: list[Any]) -> list[list[int]]:
    found: list[list[int]] = []
    for value in values:
        if isinstance(value, paddle.Tensor):
            found.append(list(value.shape))
        elif isinstance(value, dict):
            found += _tensor_shapes(list(value.values()))
        elif isinstance(value, list | tuple):
            found += _tensor_shapes(list(value))
    return found


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
