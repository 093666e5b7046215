"""Asks git about the repository: commits, trees, and what differs between them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.core.errors import CaseError

if TYPE_CHECKING:
    from pytest_dlperf.core.arm import RefArm


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in ``folder`` and return how it ended; raise ``CaseError`` if there is no git.

    Without the variables by which a hook's git names a repository of its own, and without the
    repository's hooks: a checkout of an arm is no checkout of the user's.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), "-c", f"core.hooksPath={os.devnull}", *arguments],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=variables,
            check=False,
        )
    except OSError as error:
        raise CaseError(f"git cannot be started ({error.strerror}); install it") from error


_HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)


def top_of(folder: Path) -> Path:
    """Return the top level of the repository that ``folder`` is in; raise ``CaseError``."""
    done = git(folder, "rev-parse", "--show-toplevel")
    if done.returncode != 0:
        raise CaseError(f"{folder} is in no git repository, so it has no commits to compare with")
    return Path(done.stdout.removesuffix("\n")).resolve()


def commit_of(top: Path, arm: RefArm) -> str:
    """Return the commit that ``arm`` names; raise ``CaseError`` if there is none."""
    found = git(top, "rev-parse", "--verify", "--quiet", f"{arm.ref}^{{commit}}")
    if found.returncode != 0:
        raise CaseError(
            f"{arm.name!r}: {top} has no commit {arm.ref!r}; look at git branch --all and git "
            "tag, and fetch it if it is on another machine"
        )
    commit = found.stdout.strip()
    if not arm.base_of:
        return commit
    base = git(top, "merge-base", "HEAD", commit)
    if base.returncode != 0:
        raise CaseError(
            f"{arm.name!r}: HEAD and {arm.ref} have no commit in common here; a shallow clone "
            "must be deepened first (git fetch --unshallow)"
        )
    return base.stdout.strip()


def changed_files(top: Path, commit: str, other: str = "") -> int:
    """Return how many tracked files differ between ``commit`` and ``other``.

    Without ``other``: between ``commit`` and the working tree. Raises ``CaseError``.
    """
    commits = [commit, other] if other else [commit]
    done = git(top, "diff", "--name-only", "-z", "--no-renames", *commits)
    if done.returncode != 0:
        raise CaseError(f"git diff failed in {top}: {done.stderr.strip()}")
    return done.stdout.count("\0")
