"""Lists the files that a rank imported from given trees, and from installed copies of them."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_dlperf.core.wire import MODULES_VARIABLE, TREES_VARIABLE
from pytest_dlperf.core.wire_records import ImportedCopy, ImportsRecord

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_STARTERS: Final = tuple(
    f"multiprocessing.popen_{kind}" for kind in ("fork", "spawn_posix", "forkserver")
)
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def imported() -> ImportsRecord | None:
    """Return what was imported from the trees; None if the environment names none.

    An editable install is found by its file. A virtual environment below a tree does not belong
    to the tree. ``copies`` has the packages and modules from elsewhere which the repository has
    somewhere as well.
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
    return ImportsRecord(files=files, copies=_copies(elsewhere), started_processes=_has_children())


def _has_children() -> bool:
    """Return whether this process started others that may have imported more: data loaders do."""
    # ``multiprocessing`` imports one of these when it starts its first process.
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
    """Return the parts of ``path`` below the folder that contains the module's top level."""
    installed = [index for index, part in enumerate(path.parts) if part in _INSTALLED]
    if installed:
        return path.parts[installed[-1] + 1 :]
    is_package = path.name.partition(".")[0] == "__init__"
    parents = name.split(".") if is_package else name.split(".")[:-1]
    below = (*parents, path.name)
    return below if path.parts[-len(below) :] == below else ()


def _copies(elsewhere: list[tuple[Path, tuple[str, ...]]]) -> dict[str, ImportedCopy]:
    known: dict[str, list[str]] = {}
    if listing := os.environ.get(MODULES_VARIABLE):
        for line in (
            Path(listing).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        ):
            known.setdefault(line.rpartition("/")[2], []).append(line)
    copies: dict[str, ImportedCopy] = {}
    # One file may be several modules.
    for path, below in dict.fromkeys(elsewhere):
        if not below:
            continue
        top = str(path.parents[len(below) - 2]) if len(below) > 1 else str(path)
        copy = copies.setdefault(top, ImportedCopy(files=0, compiled=False, roots={}))
        is_python = path.suffix == ".py"
        copy["files"] += is_python
        copy["compiled"] |= not is_python
        tail = "/".join(below)
        for name in known.get(path.name, ()) if is_python else ():
            if f"/{name}".endswith(f"/{tail}"):
                root = name[: len(name) - len(tail)] + below[0]
                copy["roots"][root] = copy["roots"].get(root, 0) + 1
    return {top: copy for top, copy in copies.items() if copy["roots"]}
