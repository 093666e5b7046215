from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path


class Repository:
    """A git repository with a file ``net.py``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.first = self.commit("speed = 1\n")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, text: str) -> str:
        (self.path / "net.py").write_text(text, encoding="utf-8")
        self.git("add", "net.py")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")

    def worktrees(self) -> int:
        return self.git("worktree", "list", "--porcelain").count("worktree ")


def wheel(
    folder: Path, version: str, *, requires: str = "", name: str = "tinynet", text: str = ""
) -> Path:
    """Write a wheel of a package with one module, its version or ``text``, as a build would."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", text or f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


#: A build backend of the project's own, so that a build needs no index.
_BACKEND = """
import zipfile
from pathlib import Path

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "tinynet-1-py3-none-any.whl", "tinynet-1.dist-info"
    with zipfile.ZipFile(Path(folder, name), "w") as file:
        file.write("tinynet.py")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tinynet\\nVersion: 1\\n")
        file.writestr(f"{info}/WHEEL",
                      "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        file.writestr(f"{info}/RECORD", "")
    return name
"""


def project(folder: Path, version: str) -> None:
    """Write a project of the package ``tinynet``; its module reports ``version``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text(_BACKEND)
    (folder / "tinynet.py").write_text(f"version = {version!r}\n")
