"""An interpreter that has pytest and what the plugin needs, and no framework."""

from __future__ import annotations

import importlib.metadata
import sysconfig
import venv
from pathlib import Path

#: What pytest and the plugin need, and no framework.
NEEDED = (
    "pytest", "pluggy", "iniconfig", "packaging", "pygments", "numpy", "scipy", "filelock",
    "pytest-xdist", "execnet", "exceptiongroup", "tomli", "typing_extensions",
)  # fmt: skip


def make_bare_python(home: Path) -> Path:
    """Make it in ``home``; its packages are those of this environment."""
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": home, "platbase": home}))
    for name in NEEDED:
        try:
            files = importlib.metadata.distribution(name).files or []
        except importlib.metadata.PackageNotFoundError:
            continue  # this version of Python has no need of it
        for top in {Path(str(file)).parts[0] for file in files} - {"..", "__pycache__"}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(source)
    return home / "bin" / "python"
