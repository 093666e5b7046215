"""The modules that a rank imported from given trees, and from copies of what these have."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

#: Names the trees, where somebody wants to know: the launch plan of an interleaved A/B.
TREES_VARIABLE: Final = "DLPERF_TREES"
#: Names a file with the modules that the repository has in any of them, one path a line.
MODULES_VARIABLE: Final = "DLPERF_MODULES"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_STARTERS: Final = tuple(
    f"multiprocessing.popen_{kind}" for kind in ("fork", "spawn_posix", "forkserver")
)
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def imported() -> dict[str, Any] | None:
    """Return what was imported from the trees; None if none is named.

    ``files``: the SHA-256 of every file in a tree; an editable install is found by its file. A
    virtual environment below a tree is none of it. ``copies``: packages and modules from
    elsewhere, by their path, which the repository has somewhere as well: how many ``files`` of
    Python were imported of it, whether ``compiled`` ones were, and in ``roots`` where the
    repository has how many of these files. ``started_processes``: whether this process started
    others, whose imports nobody knows.
    """
    if TREES_VARIABLE not in os.environ:
        return None
    trees = [Path(tree).resolve() for tree in os.environ[TREES_VARIABLE].split(os.pathsep) if tree]
    files: dict[str, str] = {}
    elsewhere: list[tuple[Path, tuple[str, ...]]] = []
    for name, path in _modules():
        is_installed = bool(_INSTALLED.intersection(path.parts))
        if not is_installed and any(path.is_relative_to(tree) for tree in trees):
            if path.is_file():
                files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not path.is_relative_to(_PACKAGE):
            elsewhere.append((path, _below(path, name)))
    return {"files": files, "copies": _copies(elsewhere), "started_processes": _has_children()}


def _has_children() -> bool:
    """Whether this process started others that may have imported more: loaders of data do."""
    # ``multiprocessing`` imports the one that it starts a process with, and none before.
    return any(name in sys.modules for name in _STARTERS)


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield name and file of every module that is not of the standard library."""
    library = Path(sysconfig.get_path("stdlib")).resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(library) and not _INSTALLED.intersection(path.parts):
            continue
        spec = getattr(module, "__spec__", None)
        yield str(getattr(spec, "name", "") or getattr(module, "__name__", "")), path


def _below(path: Path, name: str) -> tuple[str, ...]:
    """Return the parts of ``path`` below the folder that the module's top level lies in."""
    installed = [index for index, part in enumerate(path.parts) if part in _INSTALLED]
    if installed:
        return path.parts[installed[-1] + 1 :]
    is_package = path.name.partition(".")[0] == "__init__"
    parents = name.split(".") if is_package else name.split(".")[:-1]
    below = (*parents, path.name)
    return below if path.parts[-len(below) :] == below else ()


def _copies(elsewhere: list[tuple[Path, tuple[str, ...]]]) -> dict[str, dict[str, Any]]:
    known: dict[str, list[str]] = {}
    if listing := os.environ.get(MODULES_VARIABLE):
        for line in (
            Path(listing).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        ):
            known.setdefault(line.rpartition("/")[2], []).append(line)
    copies: dict[str, dict[str, Any]] = {}
    # One file may be several modules.
    for path, below in dict.fromkeys(elsewhere):
        if not below:
            continue
        top = str(path.parents[len(below) - 2]) if len(below) > 1 else str(path)
        copy = copies.setdefault(top, {"files": 0, "compiled": False, "roots": {}})
        is_python = path.suffix == ".py"
        copy["files"] += is_python
        copy["compiled"] |= not is_python
        tail = "/".join(below)
        for name in known.get(path.name, ()) if is_python else ():
            if f"/{name}".endswith(f"/{tail}"):
                root = name[: len(name) - len(tail)] + below[0]
                copy["roots"][root] = copy["roots"].get(root, 0) + 1
    return {top: copy for top, copy in copies.items() if copy["roots"]}
