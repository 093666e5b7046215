"""Watches a TensorFlow training: shapes and dtypes of its work, and what its collectives cost."""

from __future__ import annotations

import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks import collectives
from pytest_dlperf.worker.frameworks.base import FirstCall, Uncounted
from pytest_dlperf.worker.frameworks.tensorflow.ranks import HorovodRanks

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.worker.frameworks.base import Framework
    from pytest_dlperf.worker.frameworks.tensorflow.ranks import Ranks


def first_call() -> FirstCall:
    """Return what notes the first call of a Keras layer or model.

    In a ``tf.function`` that is its tracing, which the first iteration brings; dimensions that
    are unknown then make a shape unknown.
    """
    return FirstCall(tf.keras.layers.Layer, _shapes_in)


def _shapes_in(values: Sequence[Any]) -> list[list[int]]:
    tensors = [value for value in tf.nest.flatten(values) if tf.is_tensor(value)]
    return [one.shape.as_list() for one in tensors if one.shape.is_fully_defined()]


class FlopsByDtype:
    """While open, counts floating-point operations of the graphs that are executed.

    Every call of a ``tf.function`` from Python is seen, with the graph that it runs and the
    functions that this calls: dtypes are those of the operations, not of a policy. Loop
    bodies count once, and all branches do. Operations outside of any function are not seen.
    Nothing that is raised here reaches the training.
    """

    def __init__(self) -> None:
        self.flops: Counter[str] = Counter()
        self.uncounted = Uncounted()
        # Of a class without public name; a TensorFlow that renames the method is not watched.
        self._class = type(tf.function(lambda: tf.constant(0)).get_concrete_function())
        self._original = getattr(self._class, "_call_flat", None)

    def __enter__(self) -> None:
        if self._original is None or _graphs_are_rewritten():
            return
        original = self._original

        def spy(function: Any, *args: Any, **kwargs: Any) -> Any:
            if tf.executing_eagerly():
                try:
                    _count(function.graph, self.flops, self.uncounted)
                except Exception:  # noqa: BLE001  # of a graph that is not known here
                    self.uncounted.note(str(getattr(function, "name", "tf.function")), ())
            return original(function, *args, **kwargs)

        self._class._call_flat = spy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._original is not None:
            self._class._call_flat = self._original


def _graphs_are_rewritten() -> bool:
    """Return whether TensorFlow changes dtypes after tracing, where this cannot see it."""
    options = tf.config.optimizer.get_experimental_options()
    return any("auto_mixed_precision" in name and on for name, on in options.items()) or any(
        name.startswith("TF_ENABLE_AUTO_MIXED_PRECISION") for name in os.environ
    )


#: Kinds of operations that multiply matrices, by their names.
_MULTIPLIES: Final = re.compile(r"MatMul|Conv(?!ert)|RNN|LSTM|GRU|Attention|XlaDot|Einsum")


def _count(graph: Any, flops: Counter[str], uncounted: Uncounted) -> None:
    for operation in graph.get_operations():
        formula = _MULTIPLY_ADDS.get(operation.type)
        if formula is not None:
            flops[tf.as_dtype(operation.get_attr("T")).name] += 2 * formula(operation)
        elif _MULTIPLIES.search(operation.type):
            uncounted.note(operation.type, [one.dtype.name for one in operation.inputs])
        for attribute in operation.node_def.attr.values():
            for function in (attribute.func, *attribute.list.func):
                called = graph._get_function(function.name) if function.name else None
                if called is not None:
                    _count(called.graph, flops, uncounted)


def _size(tensor: Any) -> int:
    return math.prod(_shape(tensor))


def _shape(tensor: Any) -> list[int]:
    # One for an unknown dimension: it is the batch, in all of the operations.
    return [dimension or 1 for dimension in tensor.shape.as_list()]


def _convolution(operation: Any) -> int:
    _, kernel = operation.inputs
    return _size(operation.outputs[0]) * math.prod(_shape(kernel)[:-1])


def _convolution_to_input(operation: Any) -> int:
    _, kernel, gradient = operation.inputs
    return _size(gradient) * math.prod(_shape(kernel)[:-1])


def _convolution_to_kernel(operation: Any) -> int:
    _, _, gradient = operation.inputs
    return _size(gradient) * math.prod(_shape(operation.outputs[0])[:-1])


def _depthwise(operation: Any) -> int:
    return _size(operation.outputs[0]) * math.prod(_shape(operation.inputs[1])[:2])


def _depthwise_to_input(operation: Any) -> int:
    _, kernel, gradient = operation.inputs
    return _size(gradient) * math.prod(_shape(kernel)[:2])


def _depthwise_to_kernel(operation: Any) -> int:
    _, _, gradient = operation.inputs
    return _size(gradient) * math.prod(_shape(operation.outputs[0])[:2])


def _product(operation: Any, transposed: str) -> int:
    inner = -2 if operation.get_attr(transposed) else -1
    return _size(operation.outputs[0]) * _shape(operation.inputs[0])[inner]


def _einsum(operation: Any) -> int:
    labels = operation.get_attr("equation").decode().partition("->")[0].split(",")
    sizes = {
        label: dimension
        for tensor, names in zip(operation.inputs, labels, strict=True)
        for label, dimension in zip(names.replace("...", ""), _shape(tensor), strict=False)
    }
    return math.prod(sizes.values())


_MULTIPLY_ADDS: Final[dict[str, Callable[[Any], int]]] = {
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "Conv2DBackpropInput": _convolution_to_input,
    "Conv3DBackpropInputV2": _convolution_to_input,
    "Conv2DBackpropFilter": _convolution_to_kernel,
    "Conv3DBackpropFilterV2": _convolution_to_kernel,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropInput": _depthwise_to_input,
    "DepthwiseConv2dNativeBackpropFilter": _depthwise_to_kernel,
    "MatMul": lambda operation: _product(operation, "transpose_a"),
    "BatchMatMulV2": lambda operation: _product(operation, "adj_x"),
    "Einsum": _einsum,
}


METHOD: Final = "Horovod's timeline"
_ITERATIONS: Final = 3


def sample_collectives(
    framework: Framework, step: Callable[[], Any], ranks: Ranks, folder: Path
) -> CollectivesRecord:
    """Return medians of a few steps, as ``Framework.sample_collectives`` says.

    Steps live in compiled graphs, from which the averaging cannot be taken out without tracing
    them again. On the first rank Horovod records when the all-reduce of each tensor began and
    ended; TensorFlow's own strategy records nothing of the kind.
    ``collective_seconds`` is the time that some all-reduce went on, with or without
    computation meanwhile, without the wait for slower ranks; None on ranks other than the first.
    """
    path = folder / f"horovod_timeline{framework.job.rank:05d}.json"
    framework.barrier()
    recorded = isinstance(ranks, HorovodRanks) and ranks.start_timeline(str(path))
    timer = framework.timer()
    timer.start()
    for _ in range(_ITERATIONS):
        step()
        timer.lap()
    framework.synchronise()
    seconds = [wall_s for wall_s, _ in timer.read()]
    record = CollectivesRecord(
        method=METHOD if recorded else "",
        iterations=_ITERATIONS,
        step_seconds=statistics.median(seconds),
        own_seconds=None,
        collective_seconds=None,
    )
    if isinstance(ranks, HorovodRanks) and recorded:
        ranks.stop_timeline()
        if framework.job.rank == 0:
            spent_s = collectives.seconds_in_all_reduce(collectives.read_timeline(path))
            # Their number is small, so that the mean is what there is
            record["step_seconds"] = statistics.fmean(seconds)
            record["collective_seconds"] = None if spent_s is None else spent_s / _ITERATIONS
    return record
