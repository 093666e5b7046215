"""Note the shapes of the tensors that the first layer of a training is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any


class FirstCall:
    """While open, notes the tensors of the first layer call, and the layer.

    That is the outermost layer, positional and keyword tensors alike; the hooks of layers would
    not see the keyword ones.
    """

    def __init__(
        self,
        kind: Any,
        shapes_of: Callable[[Sequence[Any]], list[list[int]]],
        is_traced: Callable[[], bool] | None = None,
    ) -> None:
        """``kind`` is the framework's class of layers, ``shapes_of`` finds shapes in arguments.

        A call for which ``is_traced`` is true belongs to a compiler, and is not noted.
        """
        self.shapes: list[list[int]] | None = None
        self.layers: list[Any] = []
        self._kind, self._shapes_of = kind, shapes_of
        self._original, self._is_traced = kind.__call__, is_traced

    def __enter__(self) -> None:
        original, is_traced = self._original, self._is_traced

        def spy(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced is not None and is_traced():
                return original(layer, *args, **kwargs)
            self._kind.__call__ = self._original
            self.shapes = self._shapes_of([*args, *kwargs.values()])
            self.layers = [layer]
            return self._original(layer, *args, **kwargs)

        self._kind.__call__ = spy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kind.__call__ = self._original


def shapes_in(values: Sequence[Any], tensor: Any) -> list[list[int]]:
    """Return the shapes of the values of type ``tensor``, also of those in dicts and lists."""
    found: list[list[int]] = []
    for value in values:
        if isinstance(value, tensor):
            found.append(list(value.shape))
        elif isinstance(value, dict):
            found += shapes_in(list(value.values()), tensor)
        elif isinstance(value, list | tuple):
            found += shapes_in(value, tensor)
    return found
