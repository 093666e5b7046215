"""Installs Horovod for the TensorFlow of this interpreter; builds it once, and keeps the wheel.

Horovod has no wheels: it is compiled against the TensorFlow that is installed. The wheel lies in
the user's cache, under the versions that it was built for; where Horovod is installed already,
nothing is done.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HOROVOD = "0.28.1"
#: What its build needs, each with the programs of which one will do.
_PROGRAMS = {"cmake": ("cmake",), "a C++ compiler": ("g++", "c++", "clang++"), "make": ("make",)}
#: The first Python that the TensorFlow of constraints/cpu.txt has no wheels for.
_TOO_NEW = (3, 12)
_BUILD = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
}


def main() -> None:
    """Install Horovod, or end with the sentence that says what it lacks."""
    if sys.version_info >= _TOO_NEW:
        raise SystemExit(
            "TensorFlow 2.15, the newest that Horovod compiles against, needs Python 3.11 or "
            f"lower; this is {platform.python_version()}. Install one beside it where tox finds "
            "it: on PATH, or with pyenv install 3.11"
        )
    if _version_of("horovod") == HOROVOD:
        return
    folder = _cache_folder()
    cached = next(folder.glob("horovod-*.whl"), None)
    _pip("install", "--no-deps", str(cached or _build_wheel(folder)))


def _build_wheel(folder: Path) -> Path:
    missing = [
        need for need, names in _PROGRAMS.items() if not any(shutil.which(n) for n in names)
    ]
    if missing:
        raise SystemExit(
            f"Horovod {HOROVOD} must be compiled, and {' and '.join(missing)} cannot be found on "
            "PATH; on Debian, apt-get install build-essential cmake brings them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # Built beside its place and moved there whole: another build may run at the same time.
    with tempfile.TemporaryDirectory(dir=folder) as built:
        # Its build imports TensorFlow, so that an isolated one cannot work.
        _pip(
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            f"--wheel-dir={built}",
            f"horovod=={HOROVOD}",
            env={"MAKEFLAGS": f"-j{os.cpu_count()}", **os.environ, **_BUILD},
        )
        [wheel] = Path(built).glob("horovod-*.whl")
        return wheel.replace(folder / wheel.name)


def _cache_folder() -> Path:
    tensorflow = _version_of("tensorflow") or _version_of("tensorflow-cpu")
    if tensorflow is None:
        raise SystemExit("Horovod is built against TensorFlow, which is not installed here")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = sysconfig.get_config_var("SOABI") or platform.python_version()
    return cache / "pytest-dlperf" / f"horovod-{HOROVOD}-tensorflow-{tensorflow}-{python}"


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pip(*arguments: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], env=env, check=False)
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} of Horovod {HOROVOD} failed: see above")


if __name__ == "__main__":
    main()
