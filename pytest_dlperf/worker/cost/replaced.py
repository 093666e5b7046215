"""Replaces attributes of a framework for as long as a step is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let ``owner`` have ``value`` as its attribute ``name`` while open.

    Raises ``AttributeError`` where it has none, as in another version.
    """
    getattr(owner, name)
    with given(owner, name, value):
        yield


@contextlib.contextmanager
def given(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let ``owner`` have ``value`` as its attribute ``name``, which it may lack, while open."""
    is_own, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextlib.contextmanager
def wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Let ``owner`` have what ``wrap`` makes of its attribute ``name`` while open."""
    with replaced(owner, name, wrap(getattr(owner, name))):
        yield
