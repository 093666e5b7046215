"""What git says of the folder of a session: its commit, and whether files are modified.

Where there is a repository and git refuses to look at it, fails, or does not answer, that is said:
only a folder without a repository has no commit.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.launch.arms.git import error_line, git


class Checkout(NamedTuple):
    """The commit of a folder, and whether tracked files of it were modified."""

    #: Empty outside of a repository, before its first commit, and where git does not say it.
    commit: str = ""
    dirty: bool = False
    #: Why git does not say the commit or what is modified, in its own words; empty if it does.
    problem: str = ""

    def written_into(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` as measured with this."""
        return replace(
            outcome, commit=self.commit, dirty=self.dirty, checkout_problem=self.problem
        )


def checkout_of(folder: Path, *, outside: Path) -> Checkout:
    """Return what git says of ``folder``, but of changes below ``outside``: the baselines."""
    is_in_one = _is_in_a_repository(folder)
    if not is_in_one and not os.environ.get("GIT_DIR"):
        return Checkout()

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        # The variables of a hook name its repository; where nothing else does, they are the user's
        return git(folder, *arguments, by_variables=not is_in_one)

    commit = ""
    try:
        head = ask("rev-parse", "--verify", "--quiet", "HEAD")
        if head.returncode != 0:
            # Without a word before the first commit, but also where a branch's file is damaged
            failed = head if head.stderr.strip() else ask("for-each-ref", "--count=1")
            return Checkout(problem=error_line(failed) if failed.stderr.strip() else "")
        commit = head.stdout.strip()
        top = ask("rev-parse", "--show-toplevel")
        changed = ask("status", "--porcelain", "--untracked-files=no", "-z")
    except CaseError as error:
        return Checkout(commit, problem=str(error))
    for answer in (top, changed):
        if answer.returncode != 0:
            return Checkout(commit, problem=error_line(answer))
    paths = [entry[3:] for entry in changed.stdout.split("\0") if entry[2:3] == " " and entry[3:]]
    root, baselines = Path(top.stdout.removesuffix("\n")), outside.resolve()
    dirty = any(not (root / path).resolve().is_relative_to(baselines) for path in paths)
    return Checkout(commit, dirty=dirty)


def _is_in_a_repository(folder: Path) -> bool:
    """Return whether ``.git`` is in ``folder`` or above, as far as git looks for it.

    That is up to a ceiling (``GIT_CEILING_DIRECTORIES``) or another file system.
    """
    ceilings = set(os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep))
    crosses = "GIT_DISCOVERY_ACROSS_FILESYSTEM" in os.environ
    here = folder.resolve()
    for place in (here, *here.parents):
        is_elsewhere = not crosses and place.stat().st_dev != here.stat().st_dev
        if is_elsewhere or (place != here and str(place) in ceilings):
            return False
        if os.path.lexists(place / ".git"):
            return True
    return False
