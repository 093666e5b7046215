"""The modules that a rank imported from given trees: files and their hashes."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

#: Names the trees, where somebody wants to know: the launch plan of an interleaved A/B.
VARIABLE: Final = "DLPERF_TREES"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def imported() -> dict[str, str] | None:
    """Return the SHA-256 of every file that was imported from the trees; None if none is named.

    An editable install is found by its file, which lies in a tree. Packages that are installed
    in a virtual environment below a tree, and its standard library, are none of the tree's.
    """
    if VARIABLE not in os.environ:
        return None
    trees = [Path(tree).resolve() for tree in os.environ[VARIABLE].split(os.pathsep) if tree]
    library = Path(sysconfig.get_path("stdlib")).resolve()
    found: dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if _INSTALLED.intersection(path.parts) or path.is_relative_to(library):
            continue
        if any(path.is_relative_to(tree) for tree in trees) and path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
