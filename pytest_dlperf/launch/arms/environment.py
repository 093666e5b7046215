"""Packages of two environments, and environments with some of the one and some of the other."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.writable import last_lines

#: Prints what an interpreter has installed. Isolated, so that no folder of the caller counts.
_LIST: Final = """
import importlib.metadata as m, json, site, sys
found = [(d.metadata["Name"], d.version, d.requires or [], d.read_text("direct_url.json"))
         for d in m.distributions()]
sites = [p for p in sys.path if p.endswith("-packages")]
print(json.dumps({"python": list(sys.version_info[:2]), "sites": sites, "packages": found}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One package of an environment."""

    name: str
    version: str
    #: What pip installs it by; empty where only that environment can have it (an editable one).
    requirement: str
    #: Its own requirements, as its metadata have them.
    requires: tuple[str, ...] = ()
    #: The folder that it was installed from, editable or not; empty for all others.
    folder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """An environment: an interpreter, and what is installed over it."""

    python: str
    packages: Mapping[str, Package]
    #: Names of ``packages`` that are not installed in ``python``, but over it.
    over: frozenset[str] = frozenset()
    #: Folders of the packages of ``python``.
    sites: tuple[str, ...] = ()
    #: Major and minor version of ``python``.
    version: tuple[int, int] = (0, 0)


def normal(name: str) -> str:
    """Return the name of a package as the index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def side_of(text: str, *, what: str) -> Side:
    """Return the environment that ``text`` names; raise ``UsageError``, ``CaseError``.

    A program is an interpreter; a file that ends in ``.txt`` has requirements, which are installed
    over this interpreter as pip would do it now.
    """
    path = Path(text).expanduser()
    if path.suffix == ".txt":
        if not path.is_file():
            raise UsageError(f"{what}={text}: there is no such file")
        return _with_file(interpreter_side(sys.executable), path)
    python = shutil.which(str(path))
    if python is None:
        raise UsageError(
            f"{what}={text}: give an interpreter (.venv/bin/python), or a file of requirements "
            "that ends in .txt"
        )
    return interpreter_side(str(Path(python).absolute()))


def interpreter_side(python: str) -> Side:
    """Return what ``python`` has installed; raise ``CaseError`` if it does not say it."""
    document = json.loads(_output([python, "-I", "-c", _LIST], f"{python} cannot list packages"))
    packages: dict[str, Package] = {}
    for name, version, requires, direct in document["packages"]:
        url = json.loads(direct) if direct else None
        # The first one on the path is imported
        packages.setdefault(
            normal(name),
            Package(
                name=name,
                version=version + _commit(url),
                requirement=_requirement(name, version, url),
                requires=tuple(requires),
                folder=_folder(url),
            ),
        )
    major, minor = document["python"]
    return Side(
        python=python,
        packages=packages,
        sites=tuple(document["sites"]),
        version=(major, minor),
    )


def _with_file(base: Side, path: Path) -> Side:
    command = [base.python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--dry-run", "--report", "-", "-r", str(path)]
    resolved = {}
    for package in json.loads(_output(command, f"{path} cannot be resolved"))["install"]:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        url = package["download_info"] if package["is_direct"] else None
        resolved[normal(name)] = Package(
            name=name,
            version=version + _commit(url),
            requirement=_requirement(name, version, url),
            requires=tuple(package["metadata"].get("requires_dist", ())),
        )
    return Side(
        python=base.python,
        packages={**base.packages, **resolved},
        over=frozenset(resolved),
        sites=base.sites,
        version=base.version,
    )


def packages_in(overlay: Path) -> dict[str, Package]:
    """Return the packages that were installed into the folder ``overlay``."""
    distributions = importlib.metadata.distributions(path=[str(overlay)])
    return {
        normal(distribution.name): Package(
            name=distribution.name,
            version=distribution.version,
            requirement=f"{distribution.name}=={distribution.version}",
            requires=tuple(distribution.requires or ()),
        )
        for distribution in distributions
    }


def _folder(url: Mapping[str, Any] | None) -> str:
    is_folder = url is not None and "dir_info" in url
    return unquote(urlsplit(url["url"]).path) if url is not None and is_folder else ""


def _commit(url: Mapping[str, Any] | None) -> str:
    commit = (url or {}).get("vcs_info", {}).get("commit_id", "")
    return f"@{commit[:12]}" if commit else ""


def _requirement(name: str, version: str, url: Mapping[str, Any] | None) -> str:
    if url is None:
        return f"{name}=={version}"
    if url.get("dir_info", {}).get("editable"):
        return ""
    vcs = url.get("vcs_info")
    return f"{name} @ {vcs['vcs']}+{url['url']}@{vcs['commit_id']}" if vcs else (
        f"{name} @ {url['url']}"
    )  # fmt: skip


def make_environment(base: Side, requirements: Iterable[str], folder: Path) -> str:
    """Make a virtual environment that has ``requirements`` before the packages of ``base``.

    Returns its interpreter. Nothing is resolved: each requirement is installed alone. Raises
    ``CaseError`` with pip's last lines.
    """
    shutil.rmtree(folder, ignore_errors=True)
    _output([base.python, "-m", "venv", "--without-pip", str(folder)], f"{folder} cannot be made")
    python = str((folder / "bin/python").absolute())
    where = _output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], python
    )
    # As a site of its own: files of paths in it, such as those of editable packages, count too
    lines = [f"import site; site.addsitedir({site!r})\n" for site in base.sites]
    Path(where.strip(), "dlperf_base.pth").write_bytes(os.fsencode("".join(lines)))
    wanted = sorted(requirements)
    if wanted:
        command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        command += ["--no-deps", "--ignore-installed", "--no-warn-script-location", *wanted]
        _output(command, f"{', '.join(wanted)}: cannot be installed for {base.python}")
    return python


def _output(command: Sequence[str], failed: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except OSError as error:
        raise CaseError(f"{failed}: {error.strerror}") from error
    if done.returncode != 0:
        raise CaseError(f"{failed}:", remarks=last_lines(done.stdout + done.stderr))
    return done.stdout
