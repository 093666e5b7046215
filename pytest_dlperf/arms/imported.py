"""What the ranks of two arms imported from the repository, and whether that differs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_dlperf.core.arm import ReadyArm


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Files that an arm's ranks imported, by their path in the repository."""

    #: Path in the tree -> path of the file, and its SHA-256 as the rank found it.
    files: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, files: Mapping[str, str], trees: Iterable[Path], *, but: Path) -> Imported:
        """Return what lies in ``trees``; ``but`` is the folder of runs, which is none of it."""
        # The tree of an arm may lie within the repository's own.
        longest_first = sorted({tree.resolve() for tree in trees}, key=lambda t: -len(t.parts))
        found: dict[str, tuple[str, str]] = {}
        for path, digest in files.items():
            for tree in longest_first:
                if Path(path).is_relative_to(tree):
                    if not Path(path).is_relative_to(but) or tree.is_relative_to(but):
                        found[Path(path).relative_to(tree).as_posix()] = (path, digest)
                    break
        return cls(files=found)

    def changed(self, now: Path, before: Path) -> frozenset[str]:
        """Return the files that differ between the trees of two arms, or are in one only."""
        return frozenset(
            name for name in self.files if _digest(now / name) != _digest(before / name)
        )


def tree_of(arm: ReadyArm, top: Path) -> Path | None:
    """Return the tree that ``arm`` imports from; None where it differs in more than its tree."""
    if arm.tree is not None:
        return Path(arm.tree.arm)
    return top if arm.kind == "here" else None


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def secretly_same(now: Imported, before: Imported, changed: Iterable[str]) -> list[str]:
    """Return the files that differ between the trees, and yet are the same in both arms."""
    return sorted(
        name
        for name in changed
        if name in now.files
        and name in before.files
        and now.files[name][1] == before.files[name][1]
    )
