"""Compare the files that the ranks of two arms imported from the repository."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_dlperf.core.arm import ReadyArm
from pytest_dlperf.core.wire_records import RunFacts

_PYTHON: Final = frozenset({".py", ".so", ".pyd"})
_NATIVE: Final = frozenset(
    {
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".rs", ".pyx", ".pxd", ".pxi"),
        *(".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl"),
    }
)


def is_native(path: str) -> bool:
    """Return whether ``path`` is a source that modules are compiled from."""
    return PurePosixPath(path).suffix.lower() in _NATIVE


def is_source(path: str) -> bool:
    """Return whether ``path`` is a module, or a source that modules are compiled from."""
    return PurePosixPath(path).suffix.lower() in _PYTHON or is_native(path)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Files that an arm's ranks imported, by their path in the repository."""

    #: Path in the tree -> path of the file, and its SHA-256 as the rank found it.
    files: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, files: Mapping[str, str], trees: Iterable[Path], *, but: Path) -> Imported:
        """Return the ``files`` that are in ``trees`` and not in ``but``, the folder of runs."""
        # The tree of an arm may be inside the repository's own.
        longest_first = sorted({tree.resolve() for tree in trees}, key=lambda t: -len(t.parts))
        found: dict[str, tuple[str, str]] = {}
        for path, digest in files.items():
            for tree in longest_first:
                if Path(path).is_relative_to(tree):
                    if not Path(path).is_relative_to(but) or tree.is_relative_to(but):
                        found[Path(path).relative_to(tree).as_posix()] = (path, digest)
                    break
        return cls(files=found)

    def foreign(self, tree: Path) -> Mapping[str, str]:
        """Return the files that were not imported from ``tree``, which is this arm's own."""
        return {name: path for name, (path, _) in self.files.items() if Path(path) != tree / name}


@dataclass(frozen=True, kw_only=True)
class InstalledCopy:
    """A package that was imported from outside of the repository, which has one of its name."""

    path: str
    #: Number of its Python files that were imported.
    files: int
    #: Whether compiled modules of it were imported.
    compiled: bool
    #: Package or module in the repository -> number of those files that it has too.
    roots: Mapping[str, int]

    @classmethod
    def of(cls, *facts: RunFacts) -> tuple[InstalledCopy, ...]:
        """Return the copies that any arm imported, from the facts that ranks reported."""
        copies = {path: copy for one in facts for path, copy in one["imports"]["copies"].items()}
        return tuple(cls(path=path, **copy) for path, copy in sorted(copies.items()))

    def differing(self, paths: Set[str]) -> Iterator[tuple[str, bool]]:
        """Yield the sources among ``paths`` that it may be a copy of, and whether it certainly is.

        It is a copy if the repository's package has half of its files or more. A package that
        only has the same name, such as ``tests/torch``, has almost none of them.
        """
        for root, shared in self.roots.items():
            for path in sorted(paths):
                if is_source(path) and PurePosixPath(path).is_relative_to(root):
                    yield path, 2 * shared >= self.files
        if self.compiled:
            # Its sources may be anywhere in the repository.
            certain = any(2 * shared >= self.files for shared in self.roots.values())
            yield from ((path, certain) for path in sorted(paths) if is_native(path))


def tree_of(arm: ReadyArm, top: Path) -> Path | None:
    """Return the tree that ``arm`` imports from; None where it differs in more than its tree."""
    if arm.tree is not None:
        return Path(arm.tree.arm)
    return top if arm.kind == "here" else None


def changed(names: Iterable[str], now: Path, before: Path) -> frozenset[str]:
    """Return those of ``names`` whose files differ between two trees, or exist in one only."""
    return frozenset(name for name in names if _digest(now / name) != _digest(before / name))


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def secretly_same(now: Imported, before: Imported, changed: Iterable[str]) -> list[str]:
    """Return the files that differ between the trees although both arms imported the same."""
    return sorted(
        name
        for name in changed
        if name in now.files
        and name in before.files
        and now.files[name][1] == before.files[name][1]
    )


def never_seen(own: Imported, paths: Iterable[str], tree: Path, other: Path) -> Mapping[str, str]:
    """Return the modules that only ``tree`` has, and that its arm could not have imported.

    Each with a file of its folder, or of a folder above, that was imported from another tree.
    """
    neighbours = {
        str(PurePosixPath(name).parent): path for name, path in own.foreign(tree).items()
    }
    return {
        path: neighbours[folder]
        for path in sorted(paths)
        if is_source(path) and (tree / path).is_file() and not (other / path).is_file()
        for folder in map(str, PurePosixPath(path).parents)
        if folder in neighbours
    }


def same_compiled(now: Imported, before: Imported, paths: Iterable[str]) -> list[str]:
    """Return the compiled modules that are one file in both arms, where their sources differ."""
    if not any(is_native(path) for path in paths):
        return []
    return sorted(
        name
        for name, (path, _) in now.files.items()
        if not name.endswith(".py") and before.files.get(name, ("", ""))[0] == path
    )
