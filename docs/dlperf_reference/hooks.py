"""Hooks, from their specifications."""

from __future__ import annotations

import inspect
from typing import Any

from pytest_dlperf.session import options


def specifications() -> dict[str, Any]:
    """Return the hooks that this plugin calls, by name."""
    return {
        name: value
        for name, value in vars(options).items()
        if name.startswith("pytest_") and inspect.isfunction(value)
    }


def text() -> str:
    """Return a section for every hook; its docstring is in reStructuredText."""
    parts = []
    for name, function in specifications().items():
        words = f"## `{name}`\n```python\n{name}{inspect.signature(function)}\n```\n"
        body = inspect.getdoc(function) or ""
        parts.append(f"{words}\n````{{eval-rst}}\n{body}\n````\n")
    return "\n".join(parts)
