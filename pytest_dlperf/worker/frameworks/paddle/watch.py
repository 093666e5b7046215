"""Watches a Paddle training: shapes and dtypes of its work, and what its collectives cost."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final

import paddle
import paddle.distributed as dist
from paddle import _C_ops

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks import collectives
from pytest_dlperf.worker.frameworks.base import FirstCall, Framework, Uncounted, shapes_in
from pytest_dlperf.worker.frameworks.collectives import DirectCalls


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(paddle.nn.Layer, lambda values: shapes_in(values, paddle.Tensor))


class FlopsByDtype:
    """While open, counts floating-point operations of products and convolutions going forward.

    By the dtype of what they return: autocast casts inside the operator, where its inputs still
    look like float32. The operators are watched where Paddle's own layers and functions call
    them; ``x @ y`` is the one way around, so it is watched too. Nothing that is raised here
    reaches the training.
    """

    def __init__(self) -> None:
        self.flops: Counter[str] = Counter()
        self.uncounted = Uncounted()
        self._originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        for owner, name, per_element in _OPERATORS:
            original = getattr(owner, name, None)
            if original is not None:  # not every version has every operator
                self._originals.append((owner, name, original))
                setattr(owner, name, self._counting(name, original, per_element))
        named = {name for _, name, _ in _OPERATORS}
        for name in filter(_may_multiply, set(dir(_C_ops)) - named):
            original = getattr(_C_ops, name)
            self._originals.append((_C_ops, name, original))
            setattr(_C_ops, name, self._noting(name, original))

    def _noting(self, name: str, original: Any) -> Callable[..., Any]:
        def note(*args: Any, **kwargs: Any) -> Any:
            self.uncounted.note(name, _dtypes_in([*args, *kwargs.values()]))
            return original(*args, **kwargs)

        return note

    def _counting(
        self, name: str, original: Any, per_element: Callable[..., int]
    ) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            try:
                self.flops[_dtype_of(out)] += (
                    2 * math.prod(out.shape) * per_element(*args, **kwargs)
                )
            except Exception:  # noqa: BLE001  # of arguments that are not known here
                self.uncounted.note(name, ())
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


def _dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("paddle.")


def _dtypes_in(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, paddle.Tensor):
            yield _dtype_of(value)
        elif isinstance(value, list | tuple):
            yield from _dtypes_in(value)


#: Operators that multiply matrices, by their names; and what only sounds like them.
_MULTIPLIES: Final = re.compile(
    r"(?:^|_)(?:[a-z]*mm|matmul|gemm|conv\w*|attention|attn|rnn|lstm|gru|linear|mv|bilinear|einsum"
    r"|multi_dot)(?:_|$)"
)
_MULTIPLIES_NOT: Final = re.compile(r"_grad|interp|quantize|comm_stream")


def _may_multiply(name: str) -> bool:
    return bool(_MULTIPLIES.search(name)) and not _MULTIPLIES_NOT.search(name)


def _convolution_multiply_adds(*args: Any, **kwargs: Any) -> int:
    weight = _operand(1, ("filter", "weight"), args, kwargs)
    return 0 if weight is None else math.prod(weight.shape[1:])


def _product_multiply_adds(*args: Any, **kwargs: Any) -> int:
    x = _operand(0, ("x", "input"), args, kwargs)
    # Of a linear layer the third argument is the bias.
    transposed = _operand(2, ("transpose_x",), args, kwargs) is True
    return 0 if x is None else int(x.shape[-2 if transposed else -1])


def _plain_product_multiply_adds(*args: Any, **kwargs: Any) -> int:
    return int(_operand(0, ("x",), args, kwargs).shape[-1])


def _added_product_multiply_adds(*args: Any, **kwargs: Any) -> int:
    return int(_operand(1, ("x",), args, kwargs).shape[-1])


def _operand(
    index: int, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return an argument by place or by one of its names; None where it was not given.

    Users call these operators both ways, and names differ between versions.
    """
    if index < len(args):
        return args[index]
    return next((kwargs[name] for name in names if name in kwargs), None)


#: Operators, and their multiply-adds for each element of the result.
_OPERATORS: tuple[tuple[Any, str, Callable[..., int]], ...] = (
    (_C_ops, "conv2d", _convolution_multiply_adds),
    (_C_ops, "depthwise_conv2d", _convolution_multiply_adds),
    (_C_ops, "depthwise_conv2d_bias", _convolution_multiply_adds),
    (_C_ops, "conv3d", _convolution_multiply_adds),
    (_C_ops, "matmul", _product_multiply_adds),
    (_C_ops, "linear", _product_multiply_adds),
    (_C_ops, "addmm", _added_product_multiply_adds),
    (_C_ops, "baddbmm", _added_product_multiply_adds),
    (_C_ops, "bmm", _plain_product_multiply_adds),
    (_C_ops, "mv", _plain_product_multiply_adds),
    (paddle.Tensor, "__matmul__", _product_multiply_adds),
)


#: Functions of ``paddle.distributed`` that a step may call itself.
_DIRECT: Final = (
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
)


def sample_collectives(
    framework: Framework, step: Callable[[], Any], layers: Iterable[paddle.nn.Layer]
) -> CollectivesRecord:
    """Return what steps of ``layers`` take with and without averaging."""
    wrappers = {
        id(part): part
        for layer in layers
        for part in layer.sublayers(include_self=True)
        if isinstance(part, paddle.DataParallel)
    }
    calls = DirectCalls(
        dist, _DIRECT, framework.timer, lambda options: not options.get("sync_op", True)
    )
    return collectives.sample(framework, step, wrappers.values(), calls)


def mean_over_ranks(value: float) -> float:
    """Return the mean of ``value``, the same number on every rank."""
    total = paddle.full([1], value, dtype="float32")
    dist.all_reduce(total)
    return float(total.item() / dist.get_world_size())


def all_reduce_of(size_bytes: int) -> Callable[[], None]:
    """Return a function that starts to reduce a float32 message over the ranks."""
    message = paddle.zeros([size_bytes // 4])

    def reduce() -> None:
        dist.all_reduce(message)

    return reduce
