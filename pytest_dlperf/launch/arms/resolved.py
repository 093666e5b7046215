"""Resolve a requirement: archives by their hash, repositories by commit, folders by content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pytest_dlperf.core.errors import CaseError

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


def of_report(report: Mapping[str, Any]) -> Resolved:
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
        known = download.get("vcs_info", {}).get("commit_id") or min(
            f"{kind}={value}" for kind, value in hashes.items()
        )
        if known.endswith("=None"):
            known, is_certain = "unknown", False
        packages.append(f"{name} {known} {subdirectory}")
    return Resolved(
        packages=tuple(sorted(packages)), folders=tuple(sorted(folders)), is_certain=is_certain
    )


def of_pins(text: str, requirement: str) -> Resolved:
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
            text = os.readlink(file).encode() if file.is_symlink() else b""
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
