"""Install a requirement into an overlay: a folder that comes first on the ranks' path."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.writable import last_lines
from pytest_dlperf.launch.arms.git import Execute, run_command

_FILE_URL: Final = re.compile(r"(?:@\s*|^)file://(?:localhost)?(/[^;#\s]*)")
_EXTRAS: Final = re.compile(r"\[[^\]]*\]$")
#: Folders that tools leave in a project, which are not part of its content.
_LEFT: Final = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The packages that an installer would install for a requirement now."""

    #: One line per package: name, version, and its hash or commit.
    packages: tuple[str, ...]
    #: The same of the folders that packages are built from, whose builds may write into them.
    folders: tuple[str, ...] = ()
    #: Pinned requirements, for an installer that takes them; else empty.
    pinned: str = ""
    #: Whether every package has a hash or a commit.
    is_certain: bool = True


def resolved_by_pip(report: Mapping[str, Any]) -> Resolved:
    """Return the packages of pip's installation report; raise ``CaseError``.

    A package without hash and commit may differ each time, so the result is not certain then.
    """
    packages: list[str] = []
    folders: list[str] = []
    is_certain = True
    for package in report["install"]:
        name = f"{package['metadata']['name']} {package['metadata']['version']}"
        download = package["download_info"]
        subdirectory = download.get("subdirectory", "")
        if "dir_info" in download:
            content = content_of(Path(unquote(urlsplit(download["url"]).path)))
            folders.append(f"{name} {content} {subdirectory}")
            continue
        archive = download.get("archive_info", {})
        hashes = archive.get("hashes") or {"": archive.get("hash")}
        identity = download.get("vcs_info", {}).get("commit_id") or min(
            f"{kind}={value}" for kind, value in hashes.items()
        )
        if identity.endswith("=None"):
            identity, is_certain = "unknown", False
        packages.append(f"{name} {identity} {subdirectory}")
    return Resolved(
        packages=tuple(sorted(packages)), folders=tuple(sorted(folders)), is_certain=is_certain
    )


def resolved_by_uv(text: str, requirement: str) -> Resolved:
    """Return the packages of uv's pinned requirements ``text``; raise ``CaseError``."""
    named = {Path(unquote(match)) for line in text.splitlines() for match in _urls(line)}
    if (local := local_path(requirement)) is not None:
        named.add(local)
    folders = sorted(f"{path} {content_of(path)}" for path in named)
    return Resolved(packages=tuple(text.splitlines()), folders=tuple(folders), pinned=text)


def _urls(line: str) -> Iterator[str]:
    return (match[1] for match in _FILE_URL.finditer(line.rstrip("\\").strip()))


def local_path(requirement: str) -> Path | None:
    """Return the file or folder that ``requirement`` names; None if it names neither."""
    match = _FILE_URL.search(requirement)
    if match is not None:
        return Path(unquote(match[1]))
    path = _EXTRAS.sub("", requirement)
    is_path = "/" in path or path.endswith((".whl", ".gz", ".zip"))
    return Path(path).expanduser().absolute() if is_path and "://" not in path else None


def absolute(requirement: str) -> str:
    """Return ``requirement`` with absolute paths, for an installer in another folder."""
    path = local_path(requirement)
    if path is None or "://" in requirement:
        return requirement
    extras = _EXTRAS.search(requirement)
    return f"{path}{extras[0] if extras else ''}"


def content_of(path: Path) -> str:
    """Return the hash of a file, or of all files of a project's folder; raise ``CaseError``.

    What builds and tools leave in a folder is ignored: hidden folders at its top, virtual
    environments, the metadata of builds.
    """
    if not path.exists():
        raise CaseError(f"{path} does not exist, so it cannot be installed")
    digest = hashlib.sha256()
    try:
        for file in [path] if path.is_file() else _files(path):
            digest.update(os.fsencode(file.relative_to(path)) + b"\0")
            text = os.fsencode(os.readlink(file)) if file.is_symlink() else b""
            digest.update(hashlib.sha256(text + _bytes(file)).digest())
    except OSError as error:
        raise CaseError(f"{path} cannot be read: {error}") from error
    return digest.hexdigest()


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _files(project: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(project):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_left(project, here / name))
        links = [name for name in folders if (here / name).is_symlink()]
        yield from (here / name for name in sorted([*files, *links]))


def _is_left(project: Path, folder: Path) -> bool:
    if folder.name in _LEFT or folder.name.endswith((".egg-info", ".dist-info")):
        return True
    if (folder / "pyvenv.cfg").is_file():
        return True
    if folder.parent != project:
        return False
    is_built = folder.name == "build" and not (folder / "__init__.py").exists()
    return is_built or folder.name.startswith(".")


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
        self._uv = None if self._has_pip else _need_uv(python, found, done.stderr)

    def resolve(self, requirement: str) -> Resolved:
        """Return what an installer would install for ``requirement`` now; raise ``CaseError``."""
        if (path := local_path(requirement)) is not None:
            content_of(path)  # raises a clear error if it is missing
        name = hashlib.sha256(os.fsencode(requirement)).hexdigest()[:24]
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
            return resolved_by_pip(json.loads(report.read_text(encoding="utf-8")))
        wanted, pins = logs.with_suffix(".in"), logs / "pins.txt"
        wanted.write_bytes(os.fsencode(f"{absolute(requirement)}\n"))
        options = ("--generate-hashes", "--no-header", "--no-annotate", "--refresh")
        command = (self._uv, "pip", "compile", "--python", self._python, *options)
        try:
            self._execute_command((*command, "-o", str(pins), str(wanted)), requirement, logs)
        finally:
            wanted.unlink()
        return resolved_by_uv(pins.read_text(encoding="utf-8"), requirement)

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
            digest.update(os.fsencode(text) + b"\0")
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
        installed = resolved_by_pip(json.loads(report.read_text(encoding="utf-8")))
        if installed.packages != resolved.packages:
            raise CaseError(
                f"{requirement!r} became something else while it was installed: "
                f"{', '.join(resolved.packages)}, then {', '.join(installed.packages)}; run again"
            )

    def install_exactly(self, requirements: Sequence[str], folder: Path) -> None:
        """Install these into ``folder``, and nothing that they need; raise ``CaseError``."""
        options = ("--no-deps", "--target", str(folder), *requirements)
        command: tuple[str, ...] = (*self._pip, "install", *options)
        if self._uv is not None:
            command = (self._uv, "pip", "install", "--python", self._python, *options)
        logs = folder.with_name(f"{folder.name}.install")
        self._execute_command(command, ", ".join(requirements), logs)

    def exact_folder_name(self, requirements: Sequence[str]) -> str:
        """Return the name of the folder of ``install_exactly``, a digest; raise ``CaseError``."""
        texts = ("exactly", self._identity(), *requirements)
        return hashlib.sha256(os.fsencode("\0".join(texts))).hexdigest()[:24]

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
            raise CaseError(f"{self._python} does not start:", remarks=last_lines(done.stderr))
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
                    f"what {self._python} has installed cannot be listed:",
                    remarks=last_lines(done.stderr),
                )
            outputs.append(done.stdout)
        return tuple(outputs)


def _need_uv(python: str, pip: re.Match[str] | None, said: str) -> str:
    uv = shutil.which("uv")
    if uv is not None:
        return uv
    wanted = ".".join(map(str, _PIP))
    if pip is None:
        raise CaseError(
            f"{python} has no pip that works, and there is no uv on PATH, so no requirement can "
            f"be installed; python -m ensurepip brings pip. pip said:",
            remarks=last_lines(said),
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
