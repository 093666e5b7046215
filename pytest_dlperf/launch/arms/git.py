"""Prepare the tree of an arm: ask git, check a commit out, run the commands that set it up."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Final

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.run import LaunchPlan, Run
from pytest_dlperf.core.writable import last_lines, log_remark

#: Runs a plan to its end: ``launch/process/execute.py``.
Execute = Callable[[LaunchPlan], Run]
_TIMEOUT_S: Final = 7200.0


def run_command(
    argv: Sequence[str], *, cwd: Path, logs: Path, execute: Execute, failed: str
) -> None:
    """Run ``argv`` in ``cwd``; its output goes to ``output.log`` in the folder ``logs``.

    Raises ``CaseError`` that begins with ``failed`` and ends with the last lines of the log.
    """
    # Here: every ``dlperf`` command loads this module, and few of them start anything.
    from pytest_dlperf.launch.process.left_over import RUN_VARIABLE

    shutil.rmtree(logs, ignore_errors=True)  # of an attempt that failed
    run = execute(
        LaunchPlan(
            case_id=logs.name,
            argv=tuple(argv),
            env={RUN_VARIABLE: str(logs), "PYTHONUNBUFFERED": "1"},
            workdir=str(logs),
            timeout_s=_TIMEOUT_S,
            cwd=str(cwd),
        )
    )
    if run.exit_code == 0 and not run.timed_out:
        return
    how = f"timed out after {_TIMEOUT_S:g} s" if run.timed_out else f"exit code {run.exit_code}"
    if run.exit_code is None:
        how = str(run.end)
    text = Path(run.log).read_text(encoding="utf-8", errors="replace")
    raise CaseError(f"{failed}: {how}.", remarks=log_remark(run.log, last_lines(text)))


_HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
_SUBMODULE = frozenset({"160000", ":160000"})


#: For an answer, also of a large repository on a slow disk; and to write, or remove, a tree.
_ANSWER_S: Final = 60.0
_TREE_S: Final = 3600.0
#: After a signal: git may wait for a disk or a mount that does not answer.
_KILLED_S: Final = 3.0


def git(
    folder: Path, *arguments: str, by_variables: bool = False, limit_s: float = _ANSWER_S
) -> subprocess.CompletedProcess[str]:
    """Run git in ``folder`` and return how it ended.

    Without the variables by which a git hook names its repository, unless ``by_variables``, and
    without the repository's hooks: they are for checkouts of the user, not for those of arms.
    Nothing is fetched, also not what a partial clone left out.
    Raises ``CaseError`` if there is no git, or it does not answer within ``limit_s``.
    """
    left_out = frozenset() if by_variables else _HOOK_VARIABLES
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    variables.setdefault("GIT_OPTIONAL_LOCKS", "0")
    # No transport at all: GIT_NO_LAZY_FETCH is not known to git before 2.39.4
    variables["GIT_ALLOW_PROTOCOL"] = ""
    command = ["git", "-C", str(folder), "-c", f"core.hooksPath={os.devnull}", *arguments]
    try:
        process = subprocess.Popen(
            command,
            # And no terminal: it asks nobody for a password
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env=variables,
            start_new_session=True,
        )
    except OSError as error:
        raise CaseError(f"git cannot be started ({error.strerror}); install it") from error
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        _kill(process)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise CaseError(
            f"git {' '.join(arguments[:2])} did not answer within {limit_s:g} s in {folder}"
        ) from error
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _kill(process: subprocess.Popen[str]) -> None:
    """End git and what it has started, gently first, as it then removes its locks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_KILLED_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return git's own line on why it failed."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [f"git ended with exit code {done.returncode}"])[0]


def top_of(folder: Path) -> Path:
    """Return the top level of the repository that ``folder`` is in; raise ``CaseError``."""
    done = git(folder, "rev-parse", "--show-toplevel")
    if done.returncode != 0:
        raise CaseError(
            f"git has no repository for {folder}, and so no commits to compare with: "
            f"{error_line(done)}"
        )
    return Path(done.stdout.removesuffix("\n")).resolve()


def commit_of(top: Path, arm: RefArm) -> str:
    """Return the commit that ``arm`` names; raise ``CaseError`` if there is none."""
    parsed = git(top, "rev-parse", "--verify", "--quiet", f"{arm.ref}^{{commit}}")
    if parsed.returncode != 0 and parsed.stderr.strip():
        raise CaseError(f"{arm.name!r}: git failed in {top}: {error_line(parsed)}")
    if parsed.returncode != 0:
        raise CaseError(
            f"{arm.name!r}: {top} has no commit {arm.ref!r}; {_meant(top, arm)}look at git branch "
            "--all and git tag, and fetch it if it is on another machine"
        )
    commit = parsed.stdout.strip()
    if not arm.base_of:
        return commit
    base = git(top, "merge-base", "HEAD", commit)
    if base.returncode != 0 and base.stderr.strip():
        raise CaseError(f"{arm.name!r}: git failed in {top}: {error_line(base)}")
    if base.returncode != 0:
        raise CaseError(
            f"{arm.name!r}: HEAD and {arm.ref} have no commit in common here; a shallow clone "
            "must be deepened first (git fetch --unshallow)"
        )
    return base.stdout.strip()


def _meant(top: Path, arm: RefArm) -> str:
    """Return which branch of a remote has the name of ``arm``: a CI's clone has few of its own."""
    listed = git(top, "for-each-ref", "--format=%(refname:lstrip=2)", f"refs/remotes/*/{arm.ref}")
    branches = listed.stdout.split() if listed.returncode == 0 else []
    meant = " or ".join(repr(replace(arm, ref=branch).name) for branch in branches)
    return f"did you mean {meant}? Else " if meant else ""


def missing_commit(folder: Path, commit: str) -> str:
    """Return why the repository of ``folder`` has no tree of ``commit``; empty if it has.

    Nothing is fetched. Raises ``CaseError`` where git does not answer.
    """
    top, short = top_of(folder), short_commit(commit)
    found = git(top, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found.returncode == 0:
        return _missing_files(top, commit)
    if found.stderr.strip():
        raise CaseError(f"git failed in {top}: {error_line(found)}")
    if git(top, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        return (
            f"this clone is shallow and has no commit {short}; fetch the history first "
            "(git fetch --unshallow; in CI fetch-depth: 0, GIT_DEPTH: 0)"
        )
    return f"this clone has no commit {short}: it was amended, or its branch is not fetched"


def _missing_files(top: Path, commit: str) -> str:
    """Return that a partial clone lacks files of ``commit``; empty if it has all."""
    if not git(top, "config", "--get-regexp", r"^remote\..*\.promisor$").stdout:
        return ""
    listed = git(
        top, "rev-list", "--objects", "--missing=print", "--no-walk", commit, limit_s=_TREE_S
    )
    if listed.returncode != 0:
        raise CaseError(f"git failed in {top}: {error_line(listed)}")
    if not any(line.startswith("?") for line in listed.stdout.splitlines()):
        return ""
    return (
        f"this clone is partial and lacks files of commit {short_commit(commit)}; fetch them "
        "first (git fetch --refetch --no-filter; in CI clone without --filter)"
    )


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
        raise CaseError(f"git {arguments[0]} failed in {folder}: {error_line(done)}")
    return done.stdout.split("\0")[:-1]


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
    digest = hashlib.sha256(os.fsencode(words)).hexdigest()
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
    if missing := _missing_files(top, commit):
        raise CaseError(f"{name!r}: {missing}")
    git(top, "worktree", "prune")
    # Twice: the folder of one that was deleted by hand is still registered, perhaps locked
    words = ("--detach", "--force", "--force", str(folder), commit)
    done = git(top, "worktree", "add", *words, limit_s=_TREE_S)
    if done.returncode != 0:
        raise CaseError(
            f"{name!r}: git worktree add failed for commit {commit}:",
            remarks=last_lines(done.stderr),
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
        git(top, "worktree", "remove", "--force", "--force", str(folder), limit_s=_TREE_S)
        shutil.rmtree(folder, ignore_errors=True)  # git leaves a folder that it does not know
        git(top, "worktree", "prune")


def seal_of(folder: Path) -> str | None:
    """Return a digest of a tree's commit and of the edits of its tracked files.

    None where git does not say them.
    """
    done = git(folder, "diff", "HEAD", "--no-ext-diff", limit_s=_TREE_S)
    head = git(folder, "rev-parse", "HEAD")
    if done.returncode != 0 or head.returncode != 0:
        return None
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
