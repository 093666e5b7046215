"""The modules that a rank imported from given trees: files and their hashes."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names the trees, where somebody wants to know: the launch plan of an interleaved A/B.
VARIABLE: Final = "DLPERF_TREES"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: Where a tree may have the packages that are installed from it.
_SOURCES: Final = ("", "src")


def imported() -> dict[str, dict[str, str]] | None:
    """Return what was imported from the trees; None if none is named.

    ``files``: the SHA-256 of every file in a tree; an editable install is found by its file. A
    virtual environment below a tree is none of it. ``copies``: every installed file that a tree
    has as well, with its path in that tree.
    """
    if VARIABLE not in os.environ:
        return None
    trees = [Path(tree).resolve() for tree in os.environ[VARIABLE].split(os.pathsep) if tree]
    library = Path(sysconfig.get_path("stdlib")).resolve()
    files: dict[str, str] = {}
    copies: dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if _INSTALLED.intersection(path.parts):
            if (name := _name_in(trees, path)) is not None:
                copies[str(path)] = name
            continue
        is_own = any(path.is_relative_to(tree) for tree in trees)
        if is_own and path.is_file() and not path.is_relative_to(library):
            files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"files": files, "copies": copies}


def _name_in(trees: Sequence[Path], path: Path) -> str | None:
    """Return the path that an installed file has in a tree; None if no tree has it."""
    at = max(index for index, part in enumerate(path.parts) if part in _INSTALLED)
    below = Path(*path.parts[at + 1 :])
    names = (Path(source) / below for source in _SOURCES)
    return next((n.as_posix() for n in names for tree in trees if (tree / n).is_file()), None)
