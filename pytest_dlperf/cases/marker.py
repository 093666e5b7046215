"""Parse ``@pytest.mark.dlperf`` and expand its axes into cases."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_dlperf.core.case import NO_FRAMEWORK, ONE_DEVICE, Case, Known
from pytest_dlperf.core.cost import allowances_of
from pytest_dlperf.core.errors import UsageError, lookup
from pytest_dlperf.core.id_words import option_word
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.metrics import gates_of
from pytest_dlperf.core.protocol import PROTOCOLS, Protocol
from pytest_dlperf.core.quantity import is_number, parse_share
from pytest_dlperf.core.wire_parallel import Parallel

#: Keys that may be lists; the rest of a case is the same in all of them.
AXES: Final = ("framework", "size", "precision", "batch_size_per_device", "parallel", "layout")
_NOT_DECLARED: Final = frozenset({"adaptive", "declared_window", "lengthened_from"})
_PROTOCOL: Final = tuple(
    f.name for f in dataclasses.fields(Protocol) if f.name not in _NOT_DECLARED
)
_CASE: Final = tuple(
    f.name for f in dataclasses.fields(Case) if f.name not in {"protocol", "cpu_ranks_max", "axes"}
)
#: Every key of the marker and of ``expand``.
KEYS: Final = (*_CASE, "protocol", *_PROTOCOL)
_DEFAULTS: Final = {"framework": "torch", "precision": "fp32"}
#: What ``None`` means in an axis.
_OF_NONE: Final = {"framework": NO_FRAMEWORK, "parallel": ""}


def expand(**keys: Any) -> tuple[Case, ...]:
    """Return one case for every combination of the axes that are lists, in order.

    Keys are those of ``Case`` and of ``Protocol``; ``protocol`` names one of ``PROTOCOLS``,
    which the others then change; layouts are texts, ``options`` a mapping whose lists are axes,
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
    if "parallel" in axes:
        axes["parallel"] = [_one_text(text) for text in axes["parallel"]]
    for name, items in axes.items():
        if not items:
            raise UsageError(f"{name} is an empty list; give at least one value")
    fixed, listed = _options(values.pop("options", {}))
    _check_numbers(values, axes["batch_size_per_device"], listed)
    if "command" in values:
        _check_used(axes.get("parallel", []), listed, values["command"])
    values |= _read(values)
    cases = []
    for combination in itertools.product(*axes.values()):
        chosen: dict[str, Any] = {
            name: _OF_NONE.get(name) if value is None else value
            for name, value in zip(axes, combination, strict=True)
        }
        layout = chosen.pop("layout")
        chosen["layout"] = layout if isinstance(layout, Layout) else Layout.parse(str(layout))
        for picked in itertools.product(*listed.values()):
            own = dict(zip(listed, picked, strict=True))
            cases.append(
                Case(
                    protocol=protocol,
                    **values,
                    **chosen,
                    options=tuple(sorted({**fixed, **own}.items())),
                    axes=tuple(filter(None, (option_word(n, value) for n, value in own.items()))),
                )
            )
    _check_layouts(cases)
    return tuple(cases)


def _check_layouts(cases: Sequence[Case]) -> None:
    """Raise ``UsageError`` for a layout to compare with that is a part of no declared one."""
    _check_replicas(cases)
    speedup = cases[0].speedup
    if speedup in {None, ONE_DEVICE} or any(case.parent() for case in cases):
        return
    layouts = ", ".join(dict.fromkeys(str(case.layout) for case in cases))
    raise UsageError(
        f"speedup={speedup!r}: no declared layout ({layouts}) is larger and contains it, so there "
        "would be no speedup; name a smaller layout of the same kind of device, or None"
    )


def _check_replicas(cases: Sequence[Case]) -> None:
    """Raise ``UsageError`` where no layout makes whole replicas.

    Other layouts of the same case that do not are left out when cases are selected.
    """
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.id_without_layout, []).append(case)
    for group in groups.values():
        if all(case.misfit for case in group):
            raise UsageError(f"{group[0].misfit}; name another layout, or another degree")


def _one_text(parallel: Any) -> Any:
    """Return the one text of a mesh that can be written in several; others are checked later."""
    try:
        return str(Parallel.parse(parallel)) if isinstance(parallel, str) else parallel
    except ValueError:
        return parallel


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values that are written in another way than a case has them."""
    fields: dict[str, Any] = {}
    if values.get("tolerance") is not None:
        fields["tolerance"] = parse_share(values["tolerance"], what="tolerance")
    if values.get("metrics") is not None:
        fields["metrics"] = gates_of(values["metrics"])
    if values.get("cost") is not None:
        fields["cost"] = allowances_of(values["cost"])
    if values.get("known") is not None:
        fields["known"] = Known.parse(values["known"])
    if "command" in values:
        fields["command"] = _command(values["command"])
        fields["unit"] = values.get("unit", "")  # its log may say
    if "launcher" in values and values["launcher"] is None:
        fields["launcher"] = "none"
    return fields


def _command(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise UsageError(
            f'command {value!r}: give its words, as in ["python", "main.py", "--amp"]'
        )
    return tuple(value)


def _options(value: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the options of all cases, and those that are lists, which are axes."""
    pairs: list[tuple[Any, Any]] = [*value.items()] if isinstance(value, Mapping) else [(0, 0)]
    listed = {name: list(item) for name, item in pairs if isinstance(item, list | tuple)}
    fixed = {name: item for name, item in pairs if name not in listed}
    every = [*fixed.values(), *itertools.chain(*listed.values())]
    if not (
        all(isinstance(name, str) for name, _ in pairs)
        and all(isinstance(item, str | int | float | bool) for item in every)
        # As a results file can hold them; option_word looks at those of a list
        and all(math.isfinite(item) for item in fixed.values() if isinstance(item, float))
    ):
        raise UsageError(
            f"options {value!r}: give a mapping of names to texts and finite numbers, or to lists "
            "of them"
        )
    for name, items in listed.items():
        if not items:
            raise UsageError(f"option {name} is an empty list; give at least one value")
        words = [option_word(name, item) for item in items]
        if twice := [items[i] for i, word in enumerate(words) if word in words[:i]]:
            raise UsageError(f"option {name} has {twice[0]!r} twice; its cases would be one")
    return fixed, listed


def _check_numbers(
    values: Mapping[str, Any], batch_sizes: Sequence[Any], listed: Mapping[str, Any]
) -> None:
    """Raise ``UsageError`` for one number of cases that may differ in it."""
    axis = next((name for name, items in listed.items() if any(map(is_number, items))), "")
    work, flops = values.get("work"), values.get("flops_per_unit")
    if work is not None and (len(batch_sizes) > 1 or axis):
        why = f"work={work!r} is one number, and option {axis} is a list of numbers, by which the "
        why += "work may differ"
        if len(batch_sizes) > 1:
            why = f"work={work!r} is that of one batch size, and batch_size_per_device has "
            why += f"{len(batch_sizes)}"
        raise UsageError(f"{why}; leave work out, and let build(job) call job.work(...)")
    if flops is not None and axis:
        raise UsageError(
            f"flops_per_unit={flops!r} is one number, and option {axis} is a list of numbers, by "
            "which the operations may differ; give each value a marker of its own"
        )


def _check_used(parallel: Sequence[str], listed: Mapping[str, Any], command: Any) -> None:
    """Raise ``UsageError`` for an axis that changes nothing in a program."""
    axes = {name: f"option {name}" for name in listed}
    if len(parallel) > 1:
        axes["parallel"] = "parallel"
    for name, what in axes.items():
        if not any(f"{{{name}}}" in str(word) for word in command):
            raise UsageError(
                f"{what} is a list, and no word of the command has {{{name}}}, so its "
                f"cases would be one program; write for instance --{name}={{{name}}}"
            )


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
        _check_replicas(cases)
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
