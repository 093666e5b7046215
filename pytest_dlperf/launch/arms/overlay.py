"""Install a requirement into an overlay: a folder that comes first on the ranks' path."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from filelock import FileLock

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.command import Execute, last_lines, run_command
from pytest_dlperf.launch.arms.resolved import (
    Resolved,
    absolute,
    content_of,
    local_path,
    of_pins,
    of_report,
)

#: The first pip that can report what it would install (``--dry-run --report``).
_PIP: Final = (22, 2)


class Installer:
    """Installs with the pip of an interpreter, or with uv if that pip is missing or too old.

    The output of its commands is kept in ``folder``.
    """

    def __init__(self, python: str, execute: Execute, folder: Path) -> None:
        self._python = python
        self._execute = execute
        self._folder = folder
        self._pip: tuple[str, ...] = (python, "-m", "pip", "--disable-pip-version-check")
        done = _run([*self._pip, "--version"])
        found = re.match(r"pip (\d+)\.(\d+)", done.stdout) if done.returncode == 0 else None
        self._has_pip = found is not None and (int(found[1]), int(found[2])) >= _PIP
        self._uv = None if self._has_pip else _need_uv(python, found)

    def resolve(self, requirement: str) -> Resolved:
        """Return what an installer would install for ``requirement`` now; raise ``CaseError``."""
        if (path := local_path(requirement)) is not None:
            content_of(path)  # raises a clear error if it is missing
        name = hashlib.sha256(requirement.encode()).hexdigest()[:24]
        logs = self._folder / f"{name}.resolve"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._folder / "resolving.lock"):
                resolved = self._resolve(requirement, logs)
                shutil.rmtree(logs)
        except OSError as error:
            raise CaseError(f"cannot write to {logs}: {error}") from error
        return resolved

    def _resolve(self, requirement: str, logs: Path) -> Resolved:
        if self._uv is None:
            report = logs / "report.json"
            nowhere = str(logs / "packages")
            command = (*self._install(requirement, nowhere, report), "--dry-run")
            self._execute_command(command, requirement, logs)
            return of_report(json.loads(report.read_text(encoding="utf-8")))
        wanted, pins = logs.with_suffix(".in"), logs / "pins.txt"
        wanted.write_text(f"{absolute(requirement)}\n", encoding="utf-8")
        options = ("--generate-hashes", "--no-header", "--no-annotate", "--refresh")
        command = (self._uv, "pip", "compile", "--python", self._python, *options)
        try:
            self._execute_command((*command, "-o", str(pins), str(wanted)), requirement, logs)
        finally:
            wanted.unlink()
        return of_pins(pins.read_text(encoding="utf-8"), requirement)

    def folder_name(self, requirement: str, resolved: Resolved) -> str:
        """Return the name of the folder of ``requirement``: a digest of all that it depends on.

        That is what would be installed, the interpreter, and its installed packages; of an
        editable install the folder, not its commit. Raises ``CaseError``.
        """
        digest = hashlib.sha256()
        # A folder whose content is not known for certain is never used again.
        once = "" if resolved.is_certain else uuid.uuid4().hex
        listed = (*resolved.packages, "", *resolved.folders, once)
        for text in (requirement, self._identity(), *self._installed(), *listed):
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()[:24]

    def install(self, requirement: str, resolved: Resolved, folder: Path) -> None:
        """Install ``resolved`` into ``folder``; raise ``CaseError`` if that fails."""
        logs = folder.with_name(f"{folder.name}.install")
        if self._uv is not None:
            pins = folder.with_name(f"{folder.name}.txt")
            pins.write_text(resolved.pinned, encoding="utf-8")
            command = (self._uv, "pip", "install", "--python", self._python, "--no-deps")
            # uv's cache notices a changed folder by the time of its pyproject.toml only.
            refresh = ("--refresh",) if resolved.folders else ()
            options = (*refresh, "--target", str(folder), "-r", str(pins))
            self._execute_command((*command, *options), requirement, logs)
            return
        report = folder.with_name(f"{folder.name}.json")
        self._execute_command(self._install(requirement, str(folder), report), requirement, logs)
        installed = of_report(json.loads(report.read_text(encoding="utf-8")))
        if installed.packages != resolved.packages:
            raise CaseError(
                f"{requirement!r} became something else while it was installed: "
                f"{', '.join(resolved.packages)}, then {', '.join(installed.packages)}; run again"
            )

    def _install(self, requirement: str, folder: str, report: Path) -> tuple[str, ...]:
        path = local_path(requirement)
        # pip's cache knows what it built of an archive by the name only.
        is_built = path is not None and path.is_file() and path.suffix != ".whl"
        options = ("--no-cache-dir",) if is_built else ()
        outputs = ("--report", str(report), "--target", folder)
        return (*self._pip, "install", *options, *outputs, absolute(requirement))

    def _execute_command(self, command: Sequence[str], requirement: str, logs: Path) -> None:
        run_command(
            command,
            cwd=Path.cwd(),
            logs=logs,
            execute=self._execute,
            failed=f"{requirement!r} cannot be installed for {self._python}; "
            + ("uv" if self._uv else "pip"),
        )

    def _identity(self) -> str:
        done = _run([self._python, "-c", "import sys; print(sys.executable, sys.version)"])
        if done.returncode != 0:
            raise CaseError(f"{self._python} does not start:\n{last_lines(done.stderr)}")
        return done.stdout

    def _installed(self) -> tuple[str, ...]:
        freeze: tuple[str, ...] = (*self._pip, "freeze", "--all", "--exclude-editable")
        editable: tuple[str, ...] = (*self._pip, "list")
        if self._uv is not None:
            freeze = (self._uv, "pip", "freeze", "--exclude-editable", "--python", self._python)
            editable = (self._uv, "pip", "list", "--python", self._python)
        outputs = []
        for command in (freeze, (*editable, "--editable", "--format=json")):
            done = _run(command)
            if done.returncode != 0:
                raise CaseError(
                    f"what {self._python} has installed cannot be listed:\n"
                    f"{last_lines(done.stderr)}"
                )
            outputs.append(done.stdout)
        return tuple(outputs)


def _need_uv(python: str, pip: re.Match[str] | None) -> str:
    uv = shutil.which("uv")
    if uv is not None:
        return uv
    wanted = ".".join(map(str, _PIP))
    if pip is None:
        raise CaseError(
            f"{python} has no pip, and there is no uv on PATH, so no requirement can be "
            "installed; python -m ensurepip brings pip"
        )
    raise CaseError(
        f"{python} has {pip[0]}, which cannot report what it would install, and there is no uv on "
        f"PATH; {wanted} or later can: {python} -m pip install --upgrade pip"
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CaseError(f"{command[0]} cannot be started: {error.strerror}") from error
