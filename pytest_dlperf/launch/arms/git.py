"""Ask git about the repository: its top folder, commits, and what differs between two trees."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.errors import CaseError

_HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
_SUBMODULE = frozenset({"160000", ":160000"})


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in ``folder`` and return how it ended; raise ``CaseError`` if there is no git.

    Without the variables by which a git hook names its repository, and without the repository's
    hooks: they are for checkouts of the user, not for those of arms.
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


def top_of(folder: Path) -> Path:
    """Return the top level of the repository that ``folder`` is in; raise ``CaseError``."""
    done = git(folder, "rev-parse", "--show-toplevel")
    if done.returncode != 0:
        raise CaseError(
            f"{folder} is not in a git repository, so it has no commits to compare with"
        )
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


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Paths in the repository that differ between two trees; a rename is two paths."""

    tracked: frozenset[str]
    #: Those of ``tracked`` that are submodules, whose files are not among the paths.
    submodules: frozenset[str]
    #: Neither tracked nor ignored; only if one of the two is the working tree.
    untracked: frozenset[str]

    @property
    def paths(self) -> frozenset[str]:
        """All paths that differ."""
        return self.tracked | self.untracked


def difference(top: Path, commit: str, other: str = "") -> Difference:
    """Return what differs between ``commit`` and ``other``, or the working tree without one.

    Raises ``CaseError``.
    """
    commits = [commit, other] if other else [commit]
    words = _names(
        top, "diff", "--raw", "-z", "--no-renames", "--ignore-submodules=untracked", *commits
    )
    # In turn: modes, objects and status in one text, then the path.
    modes = {path: words[2 * index].split()[:2] for index, path in enumerate(words[1::2])}
    untracked = [] if other else _names(top, "ls-files", "-z", "--others", "--exclude-standard")
    return Difference(
        tracked=frozenset(modes),
        submodules=frozenset(path for path, pair in modes.items() if _SUBMODULE & {*pair}),
        untracked=frozenset(untracked),
    )


def known_modules(tree: Path) -> frozenset[str]:
    """Return the Python files of ``tree`` that git does not ignore; raise ``CaseError``."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py")
    return frozenset(_names(tree, *words))


def _names(folder: Path, *arguments: str) -> list[str]:
    done = git(folder, *arguments)
    if done.returncode != 0:
        raise CaseError(f"git {arguments[0]} failed in {folder}: {done.stderr.strip()}")
    return done.stdout.split("\0")[:-1]
