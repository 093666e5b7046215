"""Values of any of our types in which every field is given, and every free text is one text."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from pytest_dlperf.core.case import Case, Known
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Scaling, StoredScaling


def filled(kind: Any, text: str, /, **fixed: Any) -> Any:
    """Return a value of ``kind`` with every field given; ``fixed`` are fields of a dataclass.

    Each text is ``text``, and so is each key of a mapping. Of a union it is the first that is not
    None.
    """
    if kind in _CHECKED:
        return _CHECKED[kind](text)
    if dataclasses.is_dataclass(kind):
        fixed = _GIVEN.get(kind, {}) | fixed
        hints = typing.get_type_hints(kind)
        names = [one.name for one in dataclasses.fields(kind) if one.init]
        values = {name: filled(hints[name], text) for name in names if name not in fixed}
        return typing.cast("type", kind)(**values, **fixed)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return filled(next(one for one in arguments if one is not types.NoneType), text)
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        any_length = len(arguments) == 2 and arguments[1] is Ellipsis
        return tuple(filled(one, text) for one in (arguments[:1] if any_length else arguments))
    if origin is not None:
        assert issubclass(origin, Mapping), kind
        return {text: filled(arguments[1], text)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    return {str: text, int: 2, float: 2.5, bool: True}[kind]


def _case(text: str) -> Case:
    return Case(
        suite="net",
        framework="none",
        precision="fp32",
        batch_size_per_device=2,
        layout=Layout.parse("1n2c"),
        command=(text.replace("\0", ""),),
        launcher=text,
        unit=text,
        known=Known(issue=text, until=text, change=-0.1),
        options=((text, text),),
    )


_SIZES: Final = {"all_reduce_gb_per_s": {"1024": 2.5}}
#: Fields that take no text.
_GIVEN: Final[Mapping[Any, dict[str, Any]]] = {Scaling: _SIZES, StoredScaling: _SIZES}
#: The types that check their fields, and take the text in some of them only.
_CHECKED: Final = {
    Case: _case,
    Layout: lambda text: Layout.parse("1n2c"),
    Protocol: lambda text: Protocol(),
}
