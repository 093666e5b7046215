"""What is said where a program's log says that a module is missing."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.measure.missing_module import missing_module


def plan(**env: str) -> LaunchPlan:
    return LaunchPlan(case_id="c", argv=("python",), env=env, workdir="/run", timeout_s=5)


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("ModuleNotFoundError: No module named 'a.b'", "a.b"),
        ("/usr/bin/python3: No module named net", "net"),
        ("ImportError: cannot import name x", ""),
    ],
)
def test_the_module_and_what_was_searched_are_named(log: str, name: str) -> None:
    told = missing_module(f"    Traceback\n    {log}", plan(PYTHONPATH="/p:/p/src"))
    assert bool(told) is bool(name)
    if name:
        assert told.startswith(f"no module named {name!r} ")
        assert "interpreter and /p, /p/src;" in told


def test_behind_a_prefix_the_path_is_not_known() -> None:
    assert "interpreter;" in missing_module("No module named 'a'", plan())
