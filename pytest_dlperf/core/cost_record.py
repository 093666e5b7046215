"""Checks that the values of a file are the record of a cost, as ``wire_cost.py`` types it."""

from __future__ import annotations

import typing
from typing import Any, Final

from pytest_dlperf.core import wire_cost
from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.wire_cost import COST_FORMAT, CostRecord

#: What a record has unless it has a problem.
_NEEDED: Final = ("framework", "framework_version", "world_size", "stages")
#: What the trace of a framework counts beside what every stage has.
_COUNTED: Final = {
    "jax": ("launches", "memory", "host_waits"),
    "torch": (
        "launches", "memory", "host_waits", "parameters", "graph_breaks", "recompilations",
    ),
}  # fmt: skip


class _Optional:
    """Stands for ``NotRequired``, which Python 3.10 has not."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return kind | None


def checked_cost(values: Any) -> CostRecord:
    """Return ``values`` as the record of a cost; raise ``DecodeError``, which names the field.

    Fields that this version does not know are left as they are.
    """
    if not isinstance(values, dict):
        raise DecodeError(f"expected an object, found {type(values).__name__}")
    if values.get("format") != COST_FORMAT:
        raise DecodeError(f"format {values.get('format')!r}, and this version reads {COST_FORMAT}")
    _check(CostRecord, values, "")
    if "problem" not in values:
        for name in _NEEDED:
            if name not in values:
                raise DecodeError(f"{name}: missing")
        if not values["stages"]:
            raise DecodeError("stages: empty")
        for index, stage in enumerate(values["stages"]):
            for name in _COUNTED.get(values["framework"], ()):
                if name not in stage:
                    raise DecodeError(f"stages[{index}].{name}: missing")
    return typing.cast("CostRecord", values)


def _check(kind: Any, value: Any, where: str) -> None:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        _check_fields(kind, value, where)
    elif origin is list:
        _expect(list, value, where)
        for index, item in enumerate(value):
            _check(inner[0], item, f"{where}[{index}]")
    elif origin is dict:
        _expect(dict, value, where)
        for name, item in value.items():
            _check(inner[1], item, f"{where}.{name}")
    elif inner:  # an optional field
        _check(inner[0], value, where)
    elif kind is float:
        if type(value) not in {int, float}:
            raise DecodeError(f"{where}: expected a number, found {value!r}")
    else:
        _expect(kind, value, where)
        if kind is int and value < 0:
            raise DecodeError(f"{where}: {value} is below 0")


def _check_fields(kind: Any, value: Any, where: str) -> None:
    _expect(dict, value, where)
    hints = typing.get_type_hints(kind, vars(wire_cost), {"NotRequired": _Optional})
    for name, field in hints.items():
        path = f"{where}.{name}" if where else name
        if name in value:
            _check(field, value[name], path)
        elif kind.__total__ and type(None) not in typing.get_args(field):
            raise DecodeError(f"{path}: missing")


def _expect(kind: type, value: Any, where: str) -> None:
    if type(value) is not kind:
        raise DecodeError(f"{where}: expected {kind.__name__}, found {value!r}")
