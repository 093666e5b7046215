"""A requirement installed beside an environment: a folder that comes first on the ranks' path."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pytest_dlperf.arms.command import last_lines, run_command
from pytest_dlperf.core.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.arms.command import Execute

_FILE_URL: Final = re.compile(r"@\s*file://(?:localhost)?(/[^;#\s]*)")
#: What a build leaves in a project's folder: no part of what it is.
_BUILT: Final = frozenset({".git", "build", "__pycache__"})


class Installer:
    """pip of an interpreter, or uv where it has none."""

    def __init__(self, python: str, execute: Execute) -> None:
        self._python = python
        self._execute = execute
        self._pip: tuple[str, ...] = (python, "-m", "pip", "--disable-pip-version-check")
        self._uv = shutil.which("uv")
        self._has_pip = _run([*self._pip, "--version"]).returncode == 0

    def folder_name(self, requirement: str) -> str:
        """Return the name of the folder of ``requirement``, by everything that decides on it.

        The interpreter, what it has installed, the requirement, and the content of a local
        file or folder that it names. Raises ``CaseError``.
        """
        digest = hashlib.sha256()
        for text in (requirement, self._identity(), self._freeze()):
            digest.update(text.encode() + b"\0")
        local = local_path(requirement)
        if local is not None:
            digest.update(_content(local).encode())
        return digest.hexdigest()[:24]

    def install(self, requirement: str, folder: Path) -> None:
        """Install ``requirement`` and what it needs into ``folder``; raise ``CaseError``."""
        if self._has_pip:
            command: tuple[str, ...] = (*self._pip, "install")
        else:
            command = (self._need_uv(), "pip", "install", "--python", self._python)
        run_command(
            (*command, "--target", str(folder), requirement),
            cwd=Path.cwd(),
            logs=folder.with_name(f"{folder.name}.install"),
            execute=self._execute,
            failed=f"{requirement!r} cannot be installed for {self._python}; "
            + ("pip" if self._has_pip else "uv"),
        )

    def _identity(self) -> str:
        done = _run([self._python, "-c", "import sys; print(sys.executable, sys.version)"])
        if done.returncode != 0:
            raise CaseError(f"{self._python} does not start:\n{last_lines(done.stdout)}")
        return done.stdout

    def _freeze(self) -> str:
        command = (
            [*self._pip, "freeze", "--all"]
            if self._has_pip
            else [self._need_uv(), "pip", "freeze", "--python", self._python]
        )
        done = _run(command)
        if done.returncode != 0:
            raise CaseError(
                f"what {self._python} has installed cannot be listed:\n{last_lines(done.stdout)}"
            )
        return done.stdout

    def _need_uv(self) -> str:
        if self._uv is None:
            raise CaseError(
                f"{self._python} has no pip, and there is no uv on PATH, so no requirement can be "
                "installed; python -m ensurepip brings pip"
            )
        return self._uv


def local_path(requirement: str) -> Path | None:
    """Return the file or folder that ``requirement`` names; None for one of an index."""
    match = _FILE_URL.search(requirement)
    if match is not None:
        return Path(unquote(match[1]))
    return (
        Path(requirement).expanduser() if requirement.endswith((".whl", ".gz", ".zip")) else None
    )


def _content(path: Path) -> str:
    if not path.exists():
        raise CaseError(f"{path} does not exist, so it cannot be installed")
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        parts = file.relative_to(path).parts
        if not _BUILT.intersection(parts) and not any(p.endswith(".egg-info") for p in parts):
            digest.update("/".join(parts).encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CaseError(f"{command[0]} cannot be started: {error.strerror}") from error
