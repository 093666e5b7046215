"""The tree of another commit: a git worktree, set up and linked as the ini file says."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.command import Execute, last_lines, run_command
from pytest_dlperf.launch.arms.git import git


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """How a tree is prepared once git has checked it out."""

    #: Command of the shell, run in the tree: ini ``dlperf_arm_setup``; empty for none.
    setup: str = ""
    #: Untracked paths of the repository that are linked into the tree: ini ``dlperf_arm_link``.
    links: tuple[str, ...] = ()


def folder_name(commit: str, preparation: Preparation) -> str:
    """Return the name of a tree's folder: the commit, and a digest of what prepares the tree."""
    if preparation == Preparation():
        return commit
    words = "\0".join([preparation.setup, *preparation.links])
    digest = hashlib.sha256(words.encode()).hexdigest()
    return f"{commit}-{digest[:12]}"


def add_worktree(
    top: Path,
    commit: str,
    folder: Path,
    *,
    name: str,
    preparation: Preparation,
    execute: Execute,
) -> None:
    """Make ``folder`` the tree of ``commit``, link what is untracked, run the setup command.

    ``name`` is the arm in messages. Raises ``CaseError`` with the last lines of what failed.
    """
    git(top, "worktree", "prune")
    # Twice: the folder of one that was deleted by hand is still registered, perhaps locked
    done = git(top, "worktree", "add", "--detach", "--force", "--force", str(folder), commit)
    if done.returncode != 0:
        raise CaseError(
            f"{name!r}: git worktree add failed for commit {commit}:\n{last_lines(done.stderr)}"
        )
    for link in preparation.links:
        _link(top, folder, link, name)
    if preparation.setup:
        run_command(
            ("sh", "-c", preparation.setup),
            cwd=folder,
            logs=folder.with_name(f"{folder.name}.setup"),
            execute=execute,
            failed=f"{name!r} was not built; fix ini dlperf_arm_setup ({preparation.setup})",
        )


def remove_worktree(top: Path, folder: Path) -> None:
    """Remove a tree from the disk and from git's list of worktrees; do nothing without one."""
    if folder.exists():
        git(top, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)  # git leaves a folder that it does not know
        git(top, "worktree", "prune")


def seal_of(folder: Path) -> str:
    """Return a digest of a tree's commit and of the edits of its tracked files."""
    done = git(folder, "diff", "HEAD", "--no-ext-diff")
    head = git(folder, "rev-parse", "HEAD")
    if done.returncode != 0 or head.returncode != 0:
        return "not a git worktree"
    edited = hashlib.sha256(done.stdout.encode(errors="surrogateescape")).hexdigest()
    return f"{head.stdout.strip()} {edited}"


def _link(top: Path, folder: Path, link: str, name: str) -> None:
    source, target = top / link, folder / link
    if PurePath(link).is_absolute() or ".." in PurePath(link).parts:
        raise CaseError(f"ini dlperf_arm_link: {link!r} is not below {top}; give a path in it")
    if not source.exists():
        raise CaseError(f"ini dlperf_arm_link: {source} does not exist")
    if target.exists() or target.is_symlink():
        raise CaseError(
            f"ini dlperf_arm_link: {link!r} is tracked in {name!r}, so that tree has its own; "
            "link untracked paths only"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source, target_is_directory=source.is_dir())
