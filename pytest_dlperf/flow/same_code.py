"""Says whether the code that ranks import is that of a commit, so that no pair need show it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_dlperf.core.arm import Reported
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab_imports import Imported, InstalledCopy, is_source, modules_file
from pytest_dlperf.launch.arms.git import difference, known_modules, top_of

#: Files that no rank reads: what else differs may be data or settings of the training.
_PROSE: Final = frozenset({".md", ".rst"})


def reported_here(rootdir: Path, folder: Path) -> Reported:
    """Return which imports the ranks of the working tree report; nothing outside of a repository.

    Their list of modules is written into ``folder``. Raises ``CaseError`` if it cannot be.
    """
    try:
        top = top_of(rootdir)
        names = known_modules(top)
    except CaseError:
        return Reported()
    return Reported(trees=(str(top),), modules_file=str(modules_file(names, folder)))


@dataclass(frozen=True, kw_only=True)
class _Differing:
    """What of a repository differs between a commit and the working tree."""

    top: Path
    #: Code and settings that git knows.
    tracked: frozenset[str]
    #: Files that git does not know, and does not ignore.
    untracked: frozenset[str]
    submodules: bool


def _since(commit: str, rootdir: Path, baselines: Path) -> _Differing:
    top = top_of(rootdir)
    differing = difference(top, commit)
    return _Differing(
        top=top,
        tracked=_code_paths(differing.tracked, top, baselines),
        untracked=_code_paths(differing.untracked, top, baselines),
        submodules=bool(differing.submodules),
    )


def may_differ(commit: str, *, rootdir: Path, baselines: Path) -> bool:
    """Return whether pairs with the code of ``commit`` could show anything, before a rank ran.

    ``baselines`` is a folder that holds no code. Raises ``CaseError``.
    """
    differing = _since(commit, rootdir, baselines)
    modules = any(map(is_source, differing.untracked))
    return bool(differing.tracked) or differing.submodules or modules


def has_same_code(
    facts: RunFacts,
    commit: str,
    *,
    rootdir: Path,
    baselines: Path,
    but: Path,
    is_program: bool,
) -> bool:
    """Return whether nothing that ranks ran or read differs from ``commit`` in the working tree.

    ``facts`` are those that the ranks of the working tree reported; ``baselines`` and ``but``,
    the folder of runs, hold no code. False where that is not known: the ranks do not report what
    they imported, imported a copy of the repository from elsewhere, or modules that git ignores,
    or, where something differs, nothing of the repository, or started processes that may have
    imported more, or are a program of the user's (``is_program``), which may have read more before
    its first mark. Raises ``CaseError``.
    """
    if "imports" not in facts:
        return False
    imports, copies = facts["imports"], InstalledCopy.of(facts)
    differing = _since(commit, rootdir, baselines)
    top = differing.top
    imported = Imported.of(imports["files"], [top], but=but.resolve()).files
    if any(copy.is_certain for copy in copies) or not imported.keys() <= known_modules(top):
        return False
    read = Imported.of(dict.fromkeys(imports["read"], ""), [top], but=but.resolve()).files
    used = imported.keys() | read.keys()
    untracked = {
        path for path in differing.untracked if is_program or is_source(path) or path in used
    }
    paths = differing.tracked | untracked
    if not paths and not differing.submodules:
        return True
    if is_program or imports["started_processes"] or differing.submodules:
        return False
    if not imported or any(any(copy.differing(paths)) for copy in copies):
        return False
    # A module that is no longer there may have been imported. What is none may be read, also by a
    # library that Python does not see.
    return not paths & used and all(
        PurePosixPath(path).suffix == ".py" and (top / path).is_file()
        for path in differing.tracked
    )


def _code_paths(paths: Set[str], top: Path, baselines: Path) -> frozenset[str]:
    folder = baselines.resolve()
    return frozenset(
        path
        for path in paths
        if not (top / path).resolve().is_relative_to(folder)
        and PurePosixPath(path).suffix.lower() not in _PROSE
    )
