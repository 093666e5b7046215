"""Check that the arms of an A/B import different code: an A/B must not secretly be an A/A."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.launch.arms.alike import compile_alike
from pytest_dlperf.launch.arms.git import Difference, difference, known_modules, top_of

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

    @property
    def is_certain(self) -> bool:
        """Whether the repository's package has half of its files or more."""
        return any(2 * shared >= self.files for shared in self.roots.values())

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
            yield from ((path, self.is_certain) for path in sorted(paths) if is_native(path))


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


def modules_file(names: Iterable[str], folder: Path) -> Path:
    """Return the file in ``folder`` with a repository's modules; raise ``CaseError``."""
    text = "\n".join(sorted(names)).encode(errors="surrogateescape")
    file = folder / f"modules-{hashlib.sha256(text).hexdigest()[:12]}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            partial = file.with_name(f"{file.name}.{os.getpid()}")
            partial.write_bytes(text)
            partial.replace(file)
    except OSError as error:
        raise CaseError(f"cannot write {file}: {error.strerror}") from error
    return file


#: Refs of the commit that is checked out: with them the user asks for a null comparison.
_HEAD = frozenset({"HEAD", "@"})
_NULL = "both arms are the same: this was a null"
_SECRETLY = "this A/B is secretly an A/A"
_REMEDY = (
    "name the folder that is imported from in pytest's ini pythonpath, or in PYTHONPATH (in the "
    "other arm the same folder of its own tree takes its place), or build it there with ini "
    "dlperf_arm_setup"
)


class TwoTrees:
    """The trees of two arms, if the arms differ in their trees only.

    Each method takes the facts that the ranks of a run of either arm reported.
    """

    def __init__(self, *, now: ReadyArm, before: ReadyArm, rootdir: Path, workdir: Path) -> None:
        self._arms = now, before
        self._workdir = workdir.resolve()
        self._is_here_twice = now.kind == before.kind == "here"
        # Whether the arms differ in code, so that the imports of their ranks must differ.
        self._matter = "ref" in {now.kind, before.kind} <= {"ref", "here"}
        if not self._matter:
            return
        self._top = top_of(rootdir)
        self._trees = [tree_of(arm, self._top) or self._top for arm in (now, before)]
        named = {arm.name for arm in (now, before) if arm.kind == "ref"}
        self._is_head = named <= _HEAD and not self._difference.tracked

    @cached_property
    def _difference(self) -> Difference:
        commits = [arm.commit for arm in self._arms if arm.commit]
        return difference(self._top, *commits)

    def reported(self, folder: Path) -> Reported:
        """Return which imports the ranks report; write their list of modules into ``folder``.

        Raises ``CaseError``.
        """
        trees = {known.tree for known in self._arms if known.tree is not None}
        paths = tuple(sorted({path for tree in trees for path in (tree.head, tree.arm)}))
        if not self._matter:
            return Reported(trees=paths)
        return Reported(trees=paths, modules_file=str(modules_file(self._modules, folder)))

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(name for tree in self._trees for name in known_modules(tree))

    def compile_alike(self) -> None:
        """Give both trees byte code of the same modules; raise ``CaseError``."""
        if self._matter:
            compile_alike(self._trees, sorted(self._modules))

    def _knows(self, *facts: RunFacts) -> bool:
        return self._matter and all("imports" in one for one in facts)

    def is_unknown(self, now: RunFacts, before: RunFacts) -> bool:
        """Return whether the arms should run different code and nothing shows that they did."""
        return self._matter and not self._knows(now, before) and not self.null(now, before)

    def null(self, now: RunFacts, before: RunFacts) -> str:
        """Return a note on arms that the user made the same on purpose; empty for other arms.

        HEAD and the working tree are the same if no file that the case imports differs; if one
        does, the note names it.
        """
        if self._is_here_twice:
            return _NULL
        if not self._matter or not self._is_head:
            return ""
        if not self._knows(now, before):
            return "" if self._difference.untracked else _NULL
        imported, imported_before = self._imported(now), self._imported(before)
        differing = sorted(changed({*imported.files, *imported_before.files}, *self._trees))
        if not differing:
            return _NULL
        rest = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        return (
            f"not a null: {differing[0]}{rest}, which git does not track and this case imports, "
            "differs between the arms"
        )

    def unaffected(self, case: Case, now: RunFacts, before: RunFacts) -> str:
        """Return the sentence that no file which either arm of ``case`` imports differs.

        Empty if one does, if that is not known, and for a null comparison. Raises ``CaseError`` if
        the arms imported no file of the repository, or files of the wrong tree.
        """
        if not self._knows(now, before) or self._is_head:
            return ""
        imported, imported_before = self._imported(now), self._imported(before)
        is_uncertain = self._check_copies(case, InstalledCopy.of(now, before))
        names = {*imported.files, *imported_before.files}
        if not names:
            raise CaseError(
                f"{_SECRETLY}: the arms differ in the repository "
                f"{self._top}, and the ranks imported no file of it; import the code from there "
                "(an editable install, or its folder in pytest's ini pythonpath), not from an "
                "installed copy",
                subject=case.id,
            )
        if changed(names, *self._trees) or self._read(now, before) & self._difference.paths:
            return ""
        self._check_own(case, imported, imported_before)
        if is_uncertain or self._difference.submodules or _started_processes(now, before):
            return ""
        if case.command:
            return ""  # a program may have read more files before its first mark
        count = len(self._difference.tracked)
        arm, arm_before = self._arms
        tree = "the working tree" if arm.kind == "here" else arm.words
        return (
            f"nothing to compare: {tree} and {arm_before.words} differ in {_files(count)}, none "
            f"of which this case imports ({_files(len(names))} of the repository); one pair was "
            "run to see what either imports, and no more"
        )

    def _check_copies(self, case: Case, copies: tuple[InstalledCopy, ...]) -> bool:
        """Raise ``CaseError`` if a file that differs was imported from an installed copy.

        Returns whether one of the imported packages might be such a copy.
        """
        is_uncertain = False
        for copy in copies:
            for name, is_certain in copy.differing(self._difference.paths):
                if not is_certain:
                    is_uncertain = True
                    continue
                of = " or ".join(sorted(copy.roots))
                raise CaseError(
                    f"{_SECRETLY}: {name} differs between the arms, and both import an "
                    f"installed copy of {of}, {copy.path}; name the folder it is installed from "
                    "in pytest's ini pythonpath, or in PYTHONPATH (in the other arm the same "
                    "folder of its own tree takes its place)",
                    subject=case.id,
                )
        return is_uncertain

    def _check_own(self, case: Case, now: Imported, before: Imported) -> None:
        """Raise ``CaseError`` if an arm could not have imported modules that only its tree has."""
        paths = self._difference.paths
        tree_now, tree_before = self._trees
        for arm, imported, tree, other_tree in (
            (self._arms[0], now, tree_now, tree_before),
            (self._arms[1], before, tree_before, tree_now),
        ):
            for name, path in never_seen(imported, paths, tree, other_tree).items():
                raise CaseError(
                    f"{_SECRETLY}: {name} is in the tree of {arm.words} alone, which "
                    f"could not import it: its neighbour was imported from {path}; {_REMEDY}",
                    subject=case.id,
                )
        for name in same_compiled(now, before, paths):
            raise CaseError(
                f"{_SECRETLY}: what modules are compiled from differs between the "
                f"arms, and both imported the same compiled one, {now.files[name][0]}; {_REMEDY}",
                subject=case.id,
            )

    def check(self, case: Case, now: RunFacts, before: RunFacts) -> None:
        """Raise ``CaseError`` if a file that differs was imported the same in both arms."""
        if not self._knows(now, before):
            return
        imported, imported_before = self._imported(now), self._imported(before)
        same = secretly_same(imported, imported_before, changed(imported.files, *self._trees))
        if not same:
            return
        name = same[0]
        rest = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        raise CaseError(
            f"{_SECRETLY}: {name}{rest} differs between the arms, yet "
            f"both imported the same file: {imported.files[name][0]} and, against "
            f"{self._arms[1].words}, {imported_before.files[name][0]}. Mostly an editable install "
            f"leads both arms to one tree: {_REMEDY}",
            subject=case.id,
        )

    def _read(self, *facts: RunFacts) -> frozenset[str]:
        """Return the paths in the repository that the ranks of any arm read."""
        paths = {path: "" for one in facts for path in one["imports"]["read"]}
        trees = [self._top, *self._trees]
        return frozenset(Imported.of(paths, trees, but=self._workdir).files)

    def _imported(self, facts: RunFacts) -> Imported:
        return Imported.of(facts["imports"]["files"], [self._top, *self._trees], but=self._workdir)


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"


def _started_processes(*facts: RunFacts) -> bool:
    """Whether a rank started processes, such as data loaders, which may have imported more."""
    return any(one["imports"]["started_processes"] for one in facts)
