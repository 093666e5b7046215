"""Prepare the arms of a session: worktrees, overlays of packages, interpreters, settings.

``FolderCache`` keeps the worktrees and overlays for later sessions.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock

from pytest_dlperf.core.arm import (
    Arm,
    InterpreterArm,
    PackagesArm,
    ReadyArm,
    RefArm,
    RequirementArm,
    SettingsArm,
    Tree,
)
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms import git
from pytest_dlperf.launch.arms.git import Execute, commit_of, top_of
from pytest_dlperf.launch.arms.overlay import Installer, local_path

#: Number of folders of one kind that are kept, apart from those that a living session uses.
_KEPT: Final = 3
_IGNORE = '"""The trees of other commits."""\n\ncollect_ignore_glob = ["*"]\n'


class Arms:
    """The arms of one session; each is prepared once, and an error is remembered as well."""

    def __init__(
        self,
        *,
        folder: Path,
        rootdir: Path,
        python: str,
        preparation: git.Preparation,
        execute: Execute,
    ) -> None:
        self._folder = folder
        self._rootdir = rootdir
        self._python = python
        self._preparation = preparation
        self._execute = execute
        self._made: dict[Arm, ReadyArm | CaseError] = {}

    def ready(self, arm: Arm) -> ReadyArm:
        """Return ``arm`` ready to be measured; raise ``CaseError`` that names it."""
        if arm not in self._made:
            try:
                self._made[arm] = self._make(arm)
            except CaseError as error:
                self._made[arm] = error
        made = self._made[arm]
        if isinstance(made, CaseError):
            raise made
        return made

    def _make(self, arm: Arm) -> ReadyArm:
        if isinstance(arm, RefArm):
            return self._ref_arm(arm)
        if isinstance(arm, RequirementArm):
            return self._requirement_arm(arm.requirement)
        if isinstance(arm, PackagesArm):
            return self._packages_arm(arm)
        if isinstance(arm, InterpreterArm):
            if _is_project(arm.python):
                return self._requirement_arm(arm.python)
            return ReadyArm(name=arm.name, kind=arm.kind, python=_interpreter(arm.python))
        if isinstance(arm, SettingsArm):
            return ReadyArm(name=arm.name, kind=arm.kind, variables=dict(arm.variables))
        return ReadyArm(name=arm.name, kind=arm.kind)

    def _ref_arm(self, arm: RefArm) -> ReadyArm:
        top = top_of(self._rootdir)
        commit = commit_of(top, arm)
        self._trees = FolderCache(
            self._folder,
            remove=lambda folder: git.remove_worktree(top, folder),
            seal=git.seal_of,
        )
        self._keep_pytest_out()
        folder = self._trees.folder(
            git.folder_name(commit, self._preparation),
            lambda folder: git.add_worktree(
                top,
                commit,
                folder,
                name=arm.name,
                preparation=self._preparation,
                execute=self._execute,
            ),
        )
        return ReadyArm(
            name=arm.name,
            kind=arm.kind,
            commit=commit,
            tree=Tree(head=str(top), arm=str(folder.resolve())),
        )

    def _keep_pytest_out(self) -> None:
        """Keep pytest from collecting the tests of the trees: they have the same ids as HEAD's."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / "conftest.py").write_text(_IGNORE, encoding="utf-8")
        except OSError as error:
            raise CaseError(f"cannot write to {self._folder}: {error.strerror}") from error

    def _requirement_arm(self, requirement: str) -> ReadyArm:
        base = self._folder / "packages"
        installer = Installer(self._python, self._execute, base)
        resolved = installer.resolve(requirement)
        self._overlays = FolderCache(base, remove=_remove)
        folder = self._overlays.folder(
            installer.folder_name(requirement, resolved),
            lambda folder: installer.install(requirement, resolved, folder),
        )
        return ReadyArm(name=requirement, kind="requirement", overlay=str(folder.resolve()))

    def _packages_arm(self, arm: PackagesArm) -> ReadyArm:
        base = self._folder / "packages"
        installer = Installer(self._python, self._execute, base)
        self._overlays = FolderCache(base, remove=_remove)
        folder = self._overlays.folder(
            installer.exact_folder_name(arm.requirements),
            lambda folder: installer.install_exactly(arm.requirements, folder),
        )
        return ReadyArm(name=arm.name, kind=arm.kind, overlay=str(folder.resolve()))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _is_project(path: str) -> bool:
    """Return whether ``path``, which may end in extras, is a folder that can be installed."""
    folder = local_path(path)
    return folder is not None and any(
        (folder / name).is_file() for name in ("pyproject.toml", "setup.py")
    )


def _interpreter(python: str) -> str:
    path = os.path.expanduser(python)
    found = shutil.which(path)
    if found is None:
        is_folder = Path(path).is_dir()
        why = (
            "is a folder without pyproject.toml or setup.py, so it cannot be installed"
            if is_folder
            else "is not a program that can be started"
        )
        raise CaseError(
            f"{python!r} {why}; name an interpreter, as in .venv/bin/python, or a git ref"
        )
    # Not resolved: Python finds its virtual environment by the link that started it.
    return os.path.abspath(found)


class FolderCache:
    """Cache of folders that take long to make: created atomically, reused by later sessions.

    Each folder in ``base`` is named after its content. It counts as complete when the file
    ``NAME.done`` next to it holds the folder's seal; a folder that was interrupted, or edited
    since, is made again. Every session locks ``NAME.used`` as long as it uses the folder.
    """

    def __init__(
        self,
        base: Path,
        *,
        remove: Callable[[Path], None],
        seal: Callable[[Path], str | None] = lambda folder: "",
    ) -> None:
        self._base = base
        self._remove = remove
        self._seal = seal
        self._locks: dict[str, int] = {}

    def folder(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder ``name``, made by ``make`` if it is missing; drop the oldest others.

        An error of ``make`` leaves no folder. Raises ``CaseError`` if ``base`` cannot be
        written.
        """
        folder = self._base / name
        try:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._base / "making.lock"):
                self._make(folder, make)
                self._lock_for_use(name)
                self._drop_oldest()
        except OSError as error:
            raise CaseError(f"cannot make {folder}: {error}") from error
        return folder

    def _make(self, folder: Path, make: Callable[[Path], None]) -> None:
        done = folder.with_name(f"{folder.name}.done")
        if done.exists() and folder.is_dir():
            if done.read_text(encoding="utf-8") == self._seal(folder):
                os.utime(done)
                return
            if not self._is_free(folder.name):
                raise CaseError(
                    f"{folder} was changed since it was made, and another session measures with "
                    "it; wait until that session ends, and do not edit the folder"
                )
        done.unlink(missing_ok=True)
        self._remove(folder)
        try:
            make(folder)
        except BaseException:
            self._remove(folder)
            raise
        if (seal := self._seal(folder)) is None:
            self._remove(folder)
            raise CaseError(f"{folder} was made, and git does not say what is in it")
        done.write_text(seal, encoding="utf-8")

    def _lock_for_use(self, name: str) -> None:
        if name not in self._locks:
            self._locks[name] = self._open(name)
            fcntl.flock(self._locks[name], fcntl.LOCK_SH)

    def _drop_oldest(self) -> None:
        by_age = sorted(self._base.glob("*.done"), key=lambda path: path.stat().st_mtime)
        for done in by_age[:-_KEPT]:
            name = done.name.removesuffix(".done")
            if not self._is_free(name):
                continue
            done.unlink()
            self._remove(self._base / name)
            for left in self._base.glob(f"{name}.*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _is_free(self, name: str) -> bool:
        """Whether no living session uses the folder; the caller holds the lock for making."""
        descriptor = self._open(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        path = self._base / f"{name}.used"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
