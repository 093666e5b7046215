"""Parse ``@pytest.mark.dlperf`` and expand its axes into cases."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_dlperf.core.case import ONE_DEVICE, PROTOCOLS, Case, Protocol
from pytest_dlperf.core.errors import UsageError, lookup
from pytest_dlperf.core.expected import Known
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.quantity import parse_share

#: Keys that may be lists; the rest of a case is the same in all of them.
AXES: Final = ("framework", "size", "precision", "batch_size_per_device", "layout")
_PROTOCOL: Final = tuple(
    f.name for f in dataclasses.fields(Protocol) if f.name not in {"adaptive", "declared_window"}
)
_CASE: Final = tuple(
    f.name for f in dataclasses.fields(Case) if f.name not in {"protocol", "cpu_ranks_max"}
)
#: Every key of the marker and of ``expand``.
KEYS: Final = (*_CASE, "protocol", *_PROTOCOL)
_DEFAULTS: Final = {"framework": "torch", "precision": "fp32"}


def expand(**keys: Any) -> tuple[Case, ...]:
    """Return one case for every combination of the axes that are lists, in order.

    Keys are those of ``Case`` and of ``Protocol``; ``protocol`` names one of ``PROTOCOLS``,
    which the others then change; layouts are texts, ``options`` a mapping,
    ``tolerance`` ``"3%"`` or 0.03, ``known`` a mapping of issue, until and change. Raises
    ``UsageError`` for what cannot be meant.
    """
    unknown = sorted(set(keys) - set(KEYS))
    if unknown:
        raise UsageError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    values = {**_DEFAULTS, **keys}
    needed = ("suite", "layout", "batch_size_per_device")
    for name in needed if "command" in values else (*needed, "workload"):
        if name not in values:
            raise UsageError(f"{name} is missing; give for instance {_example(name)}")
    protocol = dataclasses.replace(
        lookup("protocol", values.pop("protocol", "default"), PROTOCOLS),
        **{name: values.pop(name) for name in _PROTOCOL if name in values},
    )
    axes = {name: _as_list(values.pop(name)) for name in AXES if name in values}
    for name, items in axes.items():
        if not items:
            raise UsageError(f"{name} is an empty list; give at least one value")
    if values.get("work") is not None and len(axes["batch_size_per_device"]) > 1:
        raise UsageError(
            f"work={values['work']!r} is that of one batch size, and batch_size_per_device has "
            f"{len(axes['batch_size_per_device'])}; leave work out, and let build(job) call "
            "job.work(...)"
        )
    values |= _read(values)
    cases = []
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        layout = chosen.pop("layout")
        chosen["layout"] = layout if isinstance(layout, Layout) else Layout.parse(str(layout))
        cases.append(Case(protocol=protocol, **values, **chosen))
    _check_reference(cases)
    return tuple(cases)


def _check_reference(cases: Sequence[Case]) -> None:
    """Raise ``UsageError`` for a layout to compare with that is a part of no declared one."""
    speedup = cases[0].speedup
    if speedup in {None, ONE_DEVICE} or any(case.parent() for case in cases):
        return
    layouts = ", ".join(dict.fromkeys(str(case.layout) for case in cases))
    raise UsageError(
        f"speedup={speedup!r}: no declared layout ({layouts}) is larger and contains it, so there "
        "would be no speedup; name a smaller layout of the same kind of device, or None"
    )


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values that are written in another way than a case has them."""
    found: dict[str, Any] = {"options": _options(values.get("options", {}))}
    if values.get("tolerance") is not None:
        found["tolerance"] = parse_share(values["tolerance"], what="tolerance")
    if values.get("known") is not None:
        found["known"] = Known.parse(values["known"])
    if "command" in values:
        found["command"] = _command(values["command"])
        found["unit"] = values.get("unit", "")  # its log may say
    if "launcher" in values and values["launcher"] is None:
        found["launcher"] = "none"
    return found


def _command(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise UsageError(
            f'command {value!r}: give its words, as in ["python", "main.py", "--amp"]'
        )
    return tuple(value)


def _options(value: Any) -> tuple[tuple[str, Any], ...]:
    known = isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(item, str | int | float | bool)
        for name, item in value.items()
    )
    if not known:
        raise UsageError(f"options {value!r}: give a mapping of names to texts and numbers")
    return tuple(sorted(value.items()))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _example(name: str) -> str:
    return {
        "suite": 'suite="mymodel"',
        "workload": 'workload="mymodel:build"',
        "layout": 'layout=["1n1g", "1n8g"]',
        "batch_size_per_device": "batch_size_per_device=64",
    }[name]


def cases_of(args: Sequence[Any], kwargs: Mapping[str, Any], *, function: str) -> tuple[Case, ...]:
    """Return the cases that a marker with these arguments declares.

    Either ``cases=CASES`` alone, or the workload and the keys of ``expand``; the suite is then
    the test's name without ``test_`` unless it is given. Raises ``UsageError``.
    """
    if "cases" in kwargs:
        if args or len(kwargs) > 1:
            raise UsageError("the marker takes either cases=... alone, or a workload and its keys")
        cases = tuple(kwargs["cases"])
        for case in cases:
            if not isinstance(case, Case):
                raise UsageError(
                    f"cases holds {case!r}; make cases with pytest_dlperf.expand(...)"
                )
        if not cases:
            raise UsageError("cases is empty; give at least one")
        return cases
    if len(args) > 1:
        raise UsageError(
            f"the marker takes one workload, not {len(args)} positional arguments; name the rest"
        )
    keys = dict(kwargs)
    if args:
        keys["workload"] = args[0]
    keys.setdefault("suite", function.removeprefix("test_"))
    return expand(**keys)
