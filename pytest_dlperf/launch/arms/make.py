"""Makes arms ready: each kind into what it changes for the ranks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.core.arm import (
    InterpreterArm,
    ReadyArm,
    RefArm,
    RequirementArm,
    SettingsArm,
    Tree,
)
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms import worktree
from pytest_dlperf.launch.arms.folder_cache import KeptFolders
from pytest_dlperf.launch.arms.git import commit_of, top_of
from pytest_dlperf.launch.arms.overlay import Installer
from pytest_dlperf.launch.arms.resolved import local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.arm import Arm
    from pytest_dlperf.launch.arms.command import Execute


_IGNORE = '"""The trees of other commits."""\n\ncollect_ignore_glob = ["*"]\n'


class Arms:
    """The arms of one session; each is made once, and its failure is remembered as well."""

    def __init__(
        self,
        *,
        folder: Path,
        rootdir: Path,
        python: str,
        setup: str,
        links: Sequence[str],
        execute: Execute,
    ) -> None:
        self._folder = folder
        self._rootdir = rootdir
        self._python = python
        self._setup = setup
        self._links = tuple(links)
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
            return self._of_ref(arm)
        if isinstance(arm, RequirementArm):
            return self._of_requirement(arm.requirement)
        if isinstance(arm, InterpreterArm):
            if _is_project(arm.python):
                return self._of_requirement(arm.python)
            return ReadyArm(name=arm.name, kind=arm.kind, python=_interpreter(arm.python))
        if isinstance(arm, SettingsArm):
            return ReadyArm(name=arm.name, kind=arm.kind, variables=dict(arm.variables))
        return ReadyArm(name=arm.name, kind=arm.kind)

    def _of_ref(self, arm: RefArm) -> ReadyArm:
        top = top_of(self._rootdir)
        commit = commit_of(top, arm)
        self._trees = KeptFolders(
            self._folder,
            remove=lambda folder: worktree.remove_worktree(top, folder),
            seal=worktree.seal_of,
        )
        self._keep_pytest_out()
        folder = self._trees.made(
            worktree.folder_name(commit, self._setup, self._links),
            lambda folder: worktree.add_worktree(
                top,
                commit,
                folder,
                name=arm.name,
                setup=self._setup,
                links=self._links,
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
        """Let no pytest collect the tests of the trees: they have the ids of HEAD's."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / "conftest.py").write_text(_IGNORE, encoding="utf-8")
        except OSError as error:
            raise CaseError(f"cannot write to {self._folder}: {error.strerror}") from error

    def _of_requirement(self, requirement: str) -> ReadyArm:
        base = self._folder / "packages"
        installer = Installer(self._python, self._execute, base)
        resolved = installer.resolve(requirement)
        self._overlays = KeptFolders(base, remove=_remove)
        folder = self._overlays.made(
            installer.folder_name(requirement, resolved),
            lambda folder: installer.install(requirement, resolved, folder),
        )
        return ReadyArm(name=requirement, kind="requirement", overlay=str(folder.resolve()))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _is_project(path: str) -> bool:
    """Return whether ``path`` is a folder that can be installed; it may name extras."""
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
            else "is no program that can be started"
        )
        raise CaseError(
            f"{python!r} {why}; name an interpreter, as in .venv/bin/python, or a git ref"
        )
    # Not resolved: a virtual environment is known by the link that started it.
    return os.path.abspath(found)
