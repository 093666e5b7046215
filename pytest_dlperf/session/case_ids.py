"""Which ids of a session's cases cannot be: one that two tests have, and one too long for a file.

A case's id names its baseline and its folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import pytest

from pytest_dlperf.core.errors import UsageError

#: Most bytes of an id. A file's name has 255 on Linux's file systems, and a baseline's temporary
#: has more than the id: a dot, ``.published.json``, the process that writes it, an end.
LONGEST: Final = 200
#: How the parameter begins by which pytest-repeat makes several items of a test.
_REPEATED: Final = "__pytest_repeat"

_Place = TypeVar("_Place")


def parametrized(item: pytest.Item | pytest.Function) -> set[str]:
    """Return the names that the markers ``parametrize`` of a test give."""
    parameters: set[str] = set()
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0] if marker.args else marker.kwargs.get("argnames", ())
        parameters.update(re.split(r"[,\s]+", names.strip()) if isinstance(names, str) else names)
    return parameters


def refused(
    ids: Sequence[tuple[str, _Place]], twice: Callable[[_Place, _Place], str]
) -> dict[str, str]:
    """Return why ids cannot be, by id.

    ``ids`` are ids with the places that declare them; ``twice`` says which two places declare
    one, and what to do.
    """
    places: dict[str, _Place] = {}
    sentences: dict[str, str] = {}
    for case_id, place in ids:
        length = len(case_id.encode())
        if length > LONGEST:
            sentences[case_id] = (
                f"case id {case_id} has {length} bytes, and as the name of its files it has at "
                f"most {LONGEST}; give the parameters short ids (ids= of pytest.mark.parametrize, "
                "id= of pytest.param), or the marker a short suite"
            )
        elif case_id in places:
            sentences[case_id] = (
                f"case id {case_id} is declared twice: {twice(places[case_id], place)}"
            )
        places[case_id] = place
    return sentences


def check_marker(ids: Sequence[str]) -> None:
    """Raise ``UsageError`` if the markers of one test declare an id that cannot be."""
    advice = "the test's markers say it; leave one out, or give it another suite"
    for sentence in refused([(case_id, None) for case_id in ids], lambda *_: advice).values():
        raise UsageError(sentence)


def refused_of_items(ids: Sequence[tuple[str, pytest.Item]]) -> dict[str, str]:
    """Return why ids of items cannot be, by id."""
    return refused(ids, _twice)


def _twice(first: pytest.Item, second: pytest.Item) -> str:
    """Return which two items have one id, and how to make them differ."""
    sentence = f"by {first.nodeid} and by {second.nodeid}; their baselines would be one file. "
    if first.nodeid == second.nodeid:
        return sentence + "Name the test once"
    if first.nodeid.partition("[")[0] != second.nodeid.partition("[")[0]:
        return sentence + (
            "Give one of them another suite (suite= of the marker), or each a session of its own"
        )
    callspec: Any = getattr(second, "callspec", None)
    names = set(callspec.params) - parametrized(second) - {"dlperf"} if callspec else set()
    if any(name.startswith(_REPEATED) for name in names):
        return sentence + (
            "Leave --count and the marker repeat out: --dlperf-runs=N measures a case N times"
        )
    if names:
        return sentence + (
            f"The parameters of a fixture ({', '.join(sorted(names))}) are not part of an id; "
            "parametrize the test itself"
        )
    return sentence + (
        "Give their parameters ids that differ in letters and digits (ids= of "
        "pytest.mark.parametrize): any other character becomes _"
    )
