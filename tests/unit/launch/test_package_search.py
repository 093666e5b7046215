"""The search among packages: which move together, and how many questions it asks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pytest_dlperf.launch.arms.environment import Package
from pytest_dlperf.launch.arms.package_search import Group, changed, groups_of, search


def side(**versions: str) -> dict[str, Package]:
    """Packages as ``name="2 other==2; third>1"``: version, then what it requires."""
    found = {}
    for name, text in versions.items():
        version, _, requires = text.partition(" ")
        found[name] = Package(
            name=name, version=version, requirement=f"{name}=={version}",
            requires=tuple(filter(None, requires.split("; "))),
        )  # fmt: skip
    return found


def test_what_differs():
    before = side(same="1", other="1", gone="1")
    assert changed(before, side(same="1", other="2", new="1")) == ["gone", "new", "other"]


@pytest.mark.parametrize(
    ("before", "now", "groups"),
    [
        ({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, [("a",), ("b",)]),
        # a of now needs b of now
        ({"a": "1", "b": "1"}, {"a": "2 b>=2", "b": "2"}, [("a", "b")]),
        # a of before needs b of before
        ({"a": "1 b<2", "b": "1"}, {"a": "2", "b": "2"}, [("a", "b")]),
        # either b will do
        ({"a": "1 b", "b": "1"}, {"a": "2 b>=1", "b": "2"}, [("a",), ("b",)]),
        ({"a": "1"}, {"a": "2 new", "new": "1"}, [("a", "new")]),
        ({"a": "1", "b": "1", "c": "1"}, {"a": "2 b==2", "b": "2 c==2", "c": "2"},
         [("a", "b", "c")]),
        ({"a": "1"}, {"a": "2 windows; sys_platform == 'win32'"}, [("a",)]),
    ],
)  # fmt: skip
def test_what_moves_together(before: dict, now: dict, groups: list[Group]):
    sides = side(**before), side(**now)
    assert groups_of(changed(*sides), *sides) == groups


def searched(count: int, slow: set[int], *, together: bool = False) -> tuple[set[int], int]:
    """Return what a search finds among ``count`` packages, and how often it asked."""
    asked = []

    def is_slower(groups: Sequence[Group]) -> bool:
        numbers = {int(name) for group in groups for name in group}
        assert numbers not in asked, "an answer is asked for once"
        asked.append(numbers)
        return slow <= numbers if together else bool(slow & numbers)

    found = search([(str(number),) for number in range(count)], is_slower)
    return {int(name) for group in found.groups for name in group}, len(asked)


@pytest.mark.parametrize("count", range(1, 18))
def test_one_of_many_is_found(count: int):
    for slow in range(count):
        found, asked = searched(count, {slow})
        assert found == {slow}
        assert asked <= math.ceil(math.log2(count)) + 1


def test_one_of_five_takes_four_comparisons():
    assert max(searched(5, {slow})[1] for slow in range(5)) == 4


@pytest.mark.parametrize("count", range(2, 9))
def test_two_that_are_slower_together_are_found_with_what_they_need(count: int):
    for first in range(count):
        for second in range(first):
            found, _ = searched(count, {first, second}, together=True)
            assert found >= {first, second}
            assert len(found) > 1


@pytest.mark.parametrize("count", range(1, 6))
def test_nothing_is_found_where_nothing_is_slower(count: int):
    assert searched(count, set())[0] == set()
