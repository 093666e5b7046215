"""Which files are code that a training may import, or what such code is compiled from."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

_PYTHON: Final = frozenset({".py", ".so", ".pyd"})
_NATIVE: Final = frozenset(
    {
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".rs", ".pyx", ".pxd", ".pxi"),
        *(".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl"),
    }
)


def is_native(path: str) -> bool:
    """Return whether ``path`` is what a module is compiled from."""
    return PurePosixPath(path).suffix.lower() in _NATIVE


def is_source(path: str) -> bool:
    """Return whether ``path`` is a module, or what one is compiled from."""
    return PurePosixPath(path).suffix.lower() in _PYTHON or is_native(path)
