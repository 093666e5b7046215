"""Check that the arms of an A/B import different code: an A/B must not secretly be an A/A."""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from pathlib import Path

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.launch.arms.git import Difference, difference, known_modules, top_of
from pytest_dlperf.launch.arms.imported import (
    Imported,
    InstalledCopy,
    changed,
    never_seen,
    same_compiled,
    secretly_same,
    tree_of,
)

#: Refs of the commit that is checked out: with them the user asks for a null comparison.
_HEAD = frozenset({"HEAD", "@"})
_NULL = "both arms are the same: this was a null"
_SECRETLY = "this A/B is secretly an A/A"
_REMEDY = (
    "put the folder that is imported from onto PYTHONPATH (in the other arm the same folder of "
    "its own tree takes its place), or build it there with ini dlperf_arm_setup"
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
        names = sorted({name for tree in self._trees for name in known_modules(tree)})
        text = "\n".join(names).encode(errors="surrogateescape")
        file = folder / f"modules-{hashlib.sha256(text).hexdigest()[:12]}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not file.exists():
                partial = file.with_name(f"{file.name}.{os.getpid()}")
                partial.write_bytes(text)
                partial.replace(file)
        except OSError as error:
            raise CaseError(f"cannot write {file}: {error.strerror}") from error
        return Reported(trees=paths, modules_file=str(file))

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
        own, other = self._imported(now), self._imported(before)
        differing = sorted(changed({*own.files, *other.files}, *self._trees))
        if not differing:
            return _NULL
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        return (
            f"not a null: {differing[0]}{more}, which git does not track and this case imports, "
            "differs between the arms"
        )

    def unaffected(self, case: Case, now: RunFacts, before: RunFacts) -> str:
        """Return the sentence that no file which either arm of ``case`` imports differs.

        Empty if one does, if that is not known, and for a null comparison. Raises ``CaseError`` if
        the arms imported no file of the repository, or files of the wrong tree.
        """
        if not self._knows(now, before) or self._is_head:
            return ""
        own, other = self._imported(now), self._imported(before)
        is_uncertain = self._check_copies(case, InstalledCopy.of(now, before))
        names = {*own.files, *other.files}
        if not names:
            raise CaseError(
                f"{case.id}: {_SECRETLY}: the arms differ in the repository "
                f"{self._top}, and the ranks imported no file of it; import the code from there "
                "(an editable install, or its folder on PYTHONPATH), not from an installed copy"
            )
        if changed(names, *self._trees):
            return ""
        self._check_own(case, own, other)
        if is_uncertain or self._difference.submodules or _started_processes(now, before):
            return ""
        count = len(self._difference.tracked)
        mine, theirs = self._arms
        tree = "the working tree" if mine.kind == "here" else mine.words
        return (
            f"nothing to compare: {tree} and {theirs.words} differ in {_files(count)}, none "
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
                    f"{case.id}: {_SECRETLY}: {name} differs between the arms, and both import an "
                    f"installed copy of {of}, {copy.path}; put the folder it is installed from "
                    "onto PYTHONPATH (in the other arm the same folder of its own tree takes its "
                    "place)"
                )
        return is_uncertain

    def _check_own(self, case: Case, now: Imported, before: Imported) -> None:
        """Raise ``CaseError`` if an arm could not have imported modules that only its tree has."""
        paths = self._difference.paths
        mine, theirs = self._trees
        for arm, imported, tree, other in (
            (self._arms[0], now, mine, theirs),
            (self._arms[1], before, theirs, mine),
        ):
            for name, path in never_seen(imported, paths, tree, other).items():
                raise CaseError(
                    f"{case.id}: {_SECRETLY}: {name} is in the tree of {arm.words} alone, which "
                    f"could not import it: its neighbour was imported from {path}; {_REMEDY}"
                )
        for name in same_compiled(now, before, paths):
            raise CaseError(
                f"{case.id}: {_SECRETLY}: what modules are compiled from differs between the "
                f"arms, and both imported the same compiled one, {now.files[name][0]}; {_REMEDY}"
            )

    def check(self, case: Case, now: RunFacts, before: RunFacts) -> None:
        """Raise ``CaseError`` if a file that differs was imported the same in both arms."""
        if not self._knows(now, before):
            return
        mine, theirs = self._imported(now), self._imported(before)
        same = secretly_same(mine, theirs, changed(mine.files, *self._trees))
        if not same:
            return
        name = same[0]
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        raise CaseError(
            f"{case.id}: {_SECRETLY}: {name}{more} differs between the arms, yet "
            f"both imported the same file: {mine.files[name][0]} and, against "
            f"{self._arms[1].words}, {theirs.files[name][0]}. Mostly an editable install leads "
            f"both arms to one tree: {_REMEDY}"
        )

    def _imported(self, facts: RunFacts) -> Imported:
        return Imported.of(facts["imports"]["files"], [self._top, *self._trees], but=self._workdir)


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"


def _started_processes(*facts: RunFacts) -> bool:
    """Whether a rank started processes, such as data loaders, which may have imported more."""
    return any(one["imports"]["started_processes"] for one in facts)
