"""Whether the arms of an A/B differ in what a case imports: an A/B must not secretly be an A/A."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.arms.git import changed_files, top_of
from pytest_dlperf.arms.imported import Imported, secretly_same, tree_of
from pytest_dlperf.core.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_dlperf.core.arm import ReadyArm
    from pytest_dlperf.core.case import Case

#: Refs that name the commit that stands here: then a null was asked for.
_HEAD = frozenset({"HEAD", "@"})
_NULL = "both arms are the same: this was a null"


class TwoTrees:
    """The trees of two arms, where these differ in nothing but their trees."""

    def __init__(self, *, now: ReadyArm, before: ReadyArm, rootdir: Path, workdir: Path) -> None:
        self._arms = now, before
        self._workdir = workdir.resolve()
        #: Whether code is what the arms differ in, so that what ranks import tells them apart.
        self.matter = False
        #: Says that the arms are the same on purpose; empty where they are not.
        self.null = _NULL if now.kind == before.kind == "here" else ""
        if "ref" not in {now.kind, before.kind} or not {now.kind, before.kind} <= {"ref", "here"}:
            return
        self._top = top_of(rootdir)
        self._trees = [tree_of(arm, self._top) or self._top for arm in (now, before)]
        named = {arm.name for arm in (now, before) if arm.kind == "ref"}
        if named <= _HEAD and self._changed_files() == 0:
            self.null = _NULL
        self.matter = not self.null

    def _changed_files(self) -> int:
        commits = sorted((arm.commit for arm in self._arms if arm.commit), reverse=True)
        other = commits[1] if len(commits) > 1 else ""
        return changed_files(self._top, commits[0], other)

    def unaffected(self, case: Case, facts: Mapping[str, Any]) -> str:
        """Return the sentence that nothing which ``case`` imports differs; empty if it does.

        ``facts`` are what the ranks of a run reported. Empty where they cannot tell as well.
        Raises ``CaseError`` if they imported nothing that could differ.
        """
        if not self.matter or "imports" not in facts:
            return ""
        imported = self._imported(facts)
        self._check_copies(case, facts["imports"]["copies"])
        if not imported.files:
            raise CaseError(
                f"{case.id}: this A/B is secretly an A/A: the arms differ in the repository "
                f"{self._top}, and the ranks imported no file of it; import the code from there "
                "(an editable install, or its folder on PYTHONPATH), not from an installed copy"
            )
        if imported.changed(*self._trees):
            return ""
        differing, own = self._changed_files(), len(imported.files)
        now, before = self._arms
        mine = "the working tree" if now.kind == "here" else now.words
        return (
            f"nothing to compare: {mine} and {before.words} differ in {_files(differing)}, none "
            f"of which this case imports ({_files(own)} of the repository); no pairs were run"
        )

    def _check_copies(self, case: Case, copies: Mapping[str, str]) -> None:
        """Raise ``CaseError`` if a file that differs was imported from an installed copy."""
        named = Imported(files={name: (path, "") for path, name in copies.items()})
        for name in sorted(named.changed(*self._trees)):
            raise CaseError(
                f"{case.id}: this A/B is secretly an A/A: {name} differs between the arms, and "
                f"both import an installed copy of it, {named.files[name][0]}; put the folder it "
                "is installed from onto PYTHONPATH (in the other arm the same folder of its own "
                "tree takes its place)"
            )

    def check(self, case: Case, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Raise ``CaseError`` if a file that differs was imported the same in both arms."""
        if not self.matter or "imports" not in now or "imports" not in before:
            return
        mine, theirs = self._imported(now), self._imported(before)
        same = secretly_same(mine, theirs, mine.changed(*self._trees))
        if not same:
            return
        name = same[0]
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        raise CaseError(
            f"{case.id}: this A/B is secretly an A/A: {name}{more} differs between the arms, yet "
            f"both imported the same file: {mine.files[name][0]} and, against "
            f"{self._arms[1].words}, {theirs.files[name][0]}. Mostly an editable install leads "
            "both arms to one tree: put the folder that is imported from onto PYTHONPATH (in the "
            "other arm the same folder of its own tree takes its place), or build it there with "
            "ini dlperf_arm_setup"
        )

    def _imported(self, facts: Mapping[str, Any]) -> Imported:
        return Imported.of(facts["imports"]["files"], [self._top, *self._trees], but=self._workdir)


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"
