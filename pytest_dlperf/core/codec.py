"""Converts frozen dataclasses to plain JSON types and back, and checks types on the way back."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout

T = TypeVar("T")


class DecodeError(ValueError):
    """A value does not fit its type; the message begins with the path to it."""


def encode(value: Any) -> Any:
    """Return ``value`` in plain JSON types; layouts become their text, enums their value."""
    if isinstance(value, Layout):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], value: Any, where: str = "") -> T:
    """Return a ``kind`` made of plain JSON types.

    Fields with a default may be absent. Those of former versions, which a dataclass names in
    ``FORMER``, are left out. Unknown ones, wrong types and numbers that are not finite raise
    ``DecodeError``, which names the field.
    """
    result: T = _decode(kind, value, where)
    return result


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin is not None:
        return _decode_generic(kind, origin, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise DecodeError(f"{where}: unknown {kind.__name__.lower()} {value!r}") from None
    if kind is Layout:
        text = _scalar(str, value, where)
        try:
            return Layout.parse(text)
        except UsageError as error:
            raise DecodeError(f"{where}: {error}") from error
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast("type", kind), value, where)
    return _scalar(kind, value, where)


def _decode_generic(kind: Any, origin: Any, value: Any, where: str) -> Any:
    if origin in {typing.Union, types.UnionType}:
        return _decode_union(kind, value, where)
    if origin is typing.Literal:
        if value not in typing.get_args(kind):
            raise DecodeError(f"{where}: {value!r} is not one of {typing.get_args(kind)}")
        return value
    if origin is tuple:
        return _decode_tuple(kind, value, where)
    return _decode_mapping(kind, value, where)


def _decode_union(kind: Any, value: Any, where: str) -> Any:
    options = typing.get_args(kind)
    if value is None and types.NoneType in options:
        return None
    errors: list[DecodeError] = []
    for option in (o for o in options if o is not types.NoneType):
        if option is float and type(value) is int and int in options:
            continue
        try:
            return _decode(option, value, where)
        except DecodeError as error:
            errors.append(error)
    raise errors[0]


def _decode_tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise DecodeError(f"{where}: expected a list, found {value!r}")
    kinds = typing.get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_decode(kinds[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(kinds) != len(value):
        raise DecodeError(f"{where}: expected {len(kinds)} values, found {len(value)}")
    return tuple(
        _decode(k, item, f"{where}[{i}]")
        for i, (k, item) in enumerate(zip(kinds, value, strict=True))
    )


def _decode_mapping(kind: Any, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DecodeError(f"{where}: expected an object, found {value!r}")
    _, item_kind = typing.get_args(kind)
    return {str(k): _decode(item_kind, item, f"{where}.{k}") for k, item in value.items()}


def _decode_dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise DecodeError(f"{where or kind.__name__}: expected an object, found {value!r}")
    hints = _hints(kind)
    names = {f.name: f for f in dataclasses.fields(kind)}
    former: frozenset[str] = getattr(kind, "FORMER", frozenset())
    value = {name: item for name, item in value.items() if name not in former}
    unknown = sorted(set(value) - set(names))
    if unknown:
        raise DecodeError(f"{where or kind.__name__}: unknown field {unknown[0]!r}")
    prefix = f"{where}." if where else ""
    for name, field in names.items():
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and name not in value:
            raise DecodeError(f"{prefix}{name}: missing")
    fields = {name: _decode(hints[name], item, f"{prefix}{name}") for name, item in value.items()}
    try:
        return kind(**fields)
    except UsageError as error:  # the type's own checks
        raise DecodeError(f"{where or kind.__name__}: {error}") from error


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            raise DecodeError(f"{where}: the number is too large") from None
    if type(value) is not kind:
        raise DecodeError(f"{where}: expected {kind.__name__}, found {value!r}")
    if kind is float and not math.isfinite(value):
        raise DecodeError(f"{where}: {value} is not a finite number")
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
