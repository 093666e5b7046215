"""Says of a version of a framework that a trace does not know it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_WORKER: Final = Path(__file__).parents[1]
#: Functions by which modules of PyTorch and JAX say that they have no such name.
_LOOKS_UP: Final = frozenset({"__getattr__", "getattr"})


def version_problem(error: BaseException, framework: str, version: str) -> str:
    """Return that this version lacks what a trace uses, a sentence; empty for other errors.

    A trace uses names that a framework does not promise to keep. What a program lacks fails in
    its own files, or in a library's, and not in those of the worker.
    """
    frames = traceback.extract_tb(error.__traceback__)
    files = [Path(frame.filename) for frame in frames if frame.name not in _LOOKS_UP]
    is_own = bool(files) and files[-1].is_relative_to(_WORKER)
    if not is_own or not isinstance(error, AttributeError | ImportError):
        return ""
    return (
        f"{framework} {version} lacks what a trace uses ({error}); install a newer pytest-dlperf "
        f"or an older {framework}, or measure this case"
    )
