"""Attributes that are others while a step is traced, and theirs again after it."""

from __future__ import annotations

from types import ModuleType

import pytest

from pytest_dlperf.worker.cost.replaced import given, replaced, wrapped
from pytest_dlperf.worker.cost.version_problem import version_problem


class Base:
    inherited = 1

    @staticmethod
    def static() -> int:
        return 2


class Owner(Base):
    own = 3


def test_an_attribute_is_back_where_it_was():
    with (
        replaced(Owner, "own", 30),
        replaced(Owner, "inherited", 10),
        wrapped(Owner, "static", lambda before: lambda: 10 * before()),
        given(Owner, "new", 4),
    ):
        assert (Owner.own, Owner.inherited, Owner.static()) == (30, 10, 20)
        assert Base.inherited == 1
        assert vars(Owner)["new"] == 4
    assert (Owner.own, Owner.inherited) == (3, 1)
    assert not {"inherited", "static", "new"} & vars(Owner).keys()


def test_a_static_method_stays_one():
    with replaced(Base, "static", lambda: 5):
        pass
    assert Base().static() == 2


def test_what_another_version_lacks_is_an_error_that_names_the_version():
    with pytest.raises(AttributeError) as raised, replaced(Owner, "gone", 1):
        pass
    problem = version_problem(raised.value, "jax", "9.1")
    assert problem.startswith("jax 9.1 lacks what a trace uses (")
    assert "'gone'" in problem
    assert "an older jax" in problem


def test_a_module_that_says_itself_what_it_lacks_is_one():
    module = ModuleType("library")
    exec("def __getattr__(name): raise AttributeError(name)", vars(module))
    with pytest.raises(AttributeError) as raised, replaced(module, "gone", 1):
        pass
    assert version_problem(raised.value, "jax", "9.1").startswith("jax 9.1 lacks")


def test_what_a_program_lacks_is_no_problem_of_the_version():
    with pytest.raises(AttributeError) as raised:
        _ = Owner.gone  # type: ignore[attr-defined]
    assert not version_problem(raised.value, "jax", "9.1")
