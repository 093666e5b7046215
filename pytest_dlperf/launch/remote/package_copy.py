"""A copy of this package for another interpreter, without the other installed packages."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_dlperf.core.errors import CaseError

_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Not needed by ranks: tests, which a later session would collect there, and baselines.
_LEFT_OUT: Final = ("__pycache__", "test_*.py", "baselines")


def copy_package(folder: Path) -> None:
    """Copy this package into ``folder``, unless that has a copy. Raises ``CaseError``.

    The folder that this package is installed in must not be on another interpreter's path: the
    other packages there would hide that interpreter's own. And a container may not have it.
    """
    target = folder / _PACKAGE.name
    if target.exists():
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder)) / _PACKAGE.name
        shutil.copytree(_PACKAGE, partial, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        try:
            partial.rename(target)
        except OSError:
            if not target.exists():  # else another process of this session was first
                raise
        shutil.rmtree(partial.parent)
    except OSError as error:
        raise CaseError(f"cannot copy the worker to {folder}: {error}") from error


def program_in_copy(folder: Path, module: ModuleType) -> Path:
    """Return where the file of ``module`` is in the copy that ``folder`` holds."""
    assert module.__file__ is not None
    return folder / Path(module.__file__).resolve().relative_to(_PACKAGE.parent)
