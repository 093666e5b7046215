"""The tree of another commit: a git worktree, set up and linked as the ini file says."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.command import Execute, last_lines, run_command
from pytest_dlperf.launch.arms.git import git


def folder_name(commit: str, setup: str, links: Sequence[str]) -> str:
    """Return the name of a tree's folder: of the commit, and of what prepares it."""
    if not setup and not links:
        return commit
    prepared = hashlib.sha256("\0".join([setup, *links]).encode()).hexdigest()
    return f"{commit}-{prepared[:12]}"


def add_worktree(
    top: Path,
    commit: str,
    folder: Path,
    *,
    name: str,
    setup: str,
    links: Sequence[str],
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
    for link in links:
        _link(top, folder, link, name)
    if setup:
        run_command(
            ("sh", "-c", setup),
            cwd=folder,
            logs=folder.with_name(f"{folder.name}.setup"),
            execute=execute,
            failed=f"{name!r} was not built; mend ini dlperf_arm_setup ({setup})",
        )


def remove_worktree(top: Path, folder: Path) -> None:
    """Remove a tree, and the repository's knowledge of it; nothing if there is none."""
    if folder.exists():
        git(top, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)  # what git left, as it is no worktree of it
        git(top, "worktree", "prune")


def seal_of(folder: Path) -> str:
    """Return what a tree holds of tracked files: another text when one of them was edited."""
    done = git(folder, "diff", "HEAD", "--no-ext-diff")
    head = git(folder, "rev-parse", "HEAD")
    if done.returncode != 0 or head.returncode != 0:
        return "no tree of git"
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
            f"ini dlperf_arm_link: {link!r} is tracked in {name!r}, which so has its own; link "
            "only what git does not know"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source, target_is_directory=source.is_dir())
