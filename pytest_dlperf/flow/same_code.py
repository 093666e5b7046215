"""Says whether the code that ranks import is that of a commit, so that no pair need show it."""

from __future__ import annotations

from collections.abc import Set
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


def has_same_code(
    facts: RunFacts, commit: str, *, rootdir: Path, baselines: Path, but: Path
) -> bool:
    """Return whether nothing that ranks ran differs between ``commit`` and the working tree.

    ``facts`` are those that the ranks of the working tree reported; ``baselines`` and ``but``,
    the folder of runs, hold no code. False where that is not known: the ranks imported nothing
    of the repository, or started processes that may have imported more. Raises ``CaseError``.
    """
    top = top_of(rootdir)
    differing = difference(top, commit)
    tracked = _of_code(differing.tracked, top, baselines)
    paths = tracked | differing.untracked
    if not tracked and not _modules(paths):
        return True
    if "imports" not in facts or facts["imports"]["started_processes"] or differing.submodules:
        return False
    imported = Imported.of(facts["imports"]["files"], [top], but=but.resolve()).files
    copies = InstalledCopy.of(facts)
    if not imported or any(any(copy.differing(paths)) for copy in copies):
        return False
    # A module that is no longer there may have been imported; a file that is none may be read
    return not paths & imported.keys() and all(
        PurePosixPath(path).suffix == ".py" and (top / path).is_file() for path in tracked
    )


def _of_code(paths: Set[str], top: Path, baselines: Path) -> frozenset[str]:
    folder = baselines.resolve()
    return frozenset(
        path
        for path in paths
        if not (top / path).resolve().is_relative_to(folder)
        and PurePosixPath(path).suffix.lower() not in _PROSE
    )


def _modules(paths: Set[str]) -> list[str]:
    return [path for path in paths if is_source(path)]
