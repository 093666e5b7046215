"""Attributes that are others while a step is traced, and theirs again after it."""

from __future__ import annotations

import pytest

from pytest_dlperf.worker.cost.replaced import given, replaced, wrapped


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


def test_what_another_version_lacks_is_an_error():
    with pytest.raises(AttributeError), replaced(Owner, "gone", 1):
        pass
