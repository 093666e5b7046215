"""The static check of names: which pronouns it refuses, and which it lets pass."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "static"))

from names import refused

LONG = "def fitted(values):\n" + "    values.sort()\n" * 16


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("def total(rows):\n    return [one for one in rows]\n", [], id="a short one"),
        pytest.param(
            "def total(rows):\n    found = [one for one in rows]\n    return found\n",
            ["found", "one"],
            id="two in one function",
        ),
        pytest.param(
            "def total(rows):\n    return [one for one in rows], {one for one in rows}\n",
            ["one", "one"],
            id="two loops",
        ),
        pytest.param(f"{LONG}    found = 1\n", ["found"], id="a long function"),
        pytest.param(f"{LONG}    rate = 1\n", [], id="a noun in a long function"),
        pytest.param("def known(name): ...\n", ["the function known has no noun"], id="called so"),
        pytest.param("def _of_case(name): ...\n", ["the function _of_case has no noun"], id="of"),
        pytest.param("def rate_of_case(name): ...\n", [], id="a noun first"),
        pytest.param(
            "class Rate:\n    @classmethod\n    def of_case(cls): ...\n", [], id="a constructor"
        ),
        pytest.param(
            "class Rate:\n    other: float\n", ["the field Rate.other has no noun"], id="a field"
        ),
        pytest.param(
            "class Rate:\n    def __init__(self):\n        self._seen = 0\n",
            ["the field Rate._seen has no noun"],
            id="an attribute",
        ),
    ],
)
def test_pronouns_are_refused_where_they_hide_the_noun(source: str, names: list[str]) -> None:
    messages = [message.partition(" in ")[0] for _, message in refused(ast.parse(source))]
    assert sorted(messages) == names
