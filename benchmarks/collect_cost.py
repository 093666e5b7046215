"""What the plugin costs a pytest run without a perf case, beside pytest-xdist; what it imports.

Three arms, in turn: neither plugin is installed, this one alone, pytest-xdist alone. Each arm is a
folder of links to the packages and metadata of this interpreter's environment, which is all that
its Python sees (``-S``, no ``.pth`` file, no other plugin). So a plugin is found by its entry
point, as users have it, and what pytest reads of its metadata counts: with ``-p no:`` or
``PYTEST_DISABLE_PLUGIN_AUTOLOAD`` part of it would be read in both arms, or in none.

Part of that is the list of all files of the plugin's distribution. It is long in a wheel, and
short in an editable install, so a fourth arm has the plugin with a short list: the difference is
what the list costs.

Seconds are CPU seconds of the process (user and system), and wall seconds. With ``--instructions``
valgrind counts instructions instead, once an arm: these repeat to a thousandth on a busy machine.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_PYTEST: Final = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
#: Of what pytest needs on Python 3.10 only.
_OLD_PYTHON: Final = ("exceptiongroup", "tomli", "typing_extensions")
_PLUGIN: Final = "pytest-dlperf"
_PEER: Final = "pytest-xdist"
_SHORT: Final = "pytest-dlperf, short list"
_ARMS: Final = {_PLUGIN: ("pytest-dlperf",), _PEER: ("pytest-xdist", "execnet")}
_FORBIDDEN: Final = ("numpy", "scipy", "filelock", "torch", "paddle", "tensorflow")
_SCENES: Final = {
    "collect 1000 cases of one function": ("one", ["--collect-only", "-q"]),
    "run 1000 functions of 10 files": ("many", []),
}


def link_distribution(name: str, folder: Path) -> int:
    """Link the packages and metadata of an installed distribution; return how many files it lists.

    Raises ``PackageNotFoundError`` where it is not installed.
    """
    distribution = importlib.metadata.distribution(name)
    files = distribution.files or []
    tops = {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}
    [metadata] = [top for top in tops if top.endswith((".dist-info", ".egg-info"))]
    packages = {top for top in tops if "." not in top or top.endswith(".py")}
    if name == "pytest-dlperf":
        packages.add("pytest_dlperf")  # an editable install lists none
    for package in packages:
        spec = importlib.util.find_spec(package.removesuffix(".py"))
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        target = origin.parent if origin.name == "__init__.py" else origin
        (folder / target.name).symlink_to(target)
    (folder / metadata).symlink_to(Path(str(distribution.locate_file(metadata))))
    return len(files)


def shorten_list(folder: Path) -> None:
    """Replace linked metadata of the plugin by a copy whose list of files has one line."""
    [link] = folder.glob("pytest_dlperf-*.dist-info")
    origin = link.resolve()
    link.unlink()
    link.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (link / name).write_bytes((origin / name).read_bytes())
    (link / "RECORD").write_text("pytest_dlperf/__init__.py,,\n", encoding="utf-8")


def make_arms(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the folders of packages of every arm, "" for the one without a plugin."""
    base = folder / "base"
    base.mkdir()
    for name in (*_PYTEST, *_OLD_PYTHON):
        try:
            link_distribution(name, base)
        except importlib.metadata.PackageNotFoundError:
            if name in _PYTEST:
                raise
    arms: dict[str, tuple[Path, ...]] = {"": (base,)}
    for arm, names in {**_ARMS, _SHORT: _ARMS[_PLUGIN]}.items():
        own = folder / arm.replace(", ", "-").replace(" ", "-")
        own.mkdir()
        count = sum(link_distribution(name, own) for name in names)
        if arm == _SHORT:
            shorten_list(own)
        else:
            print(f"{arm} lists {count} files")
        arms[arm] = (base, own)
    return arms


def make_tests(folder: Path) -> None:
    """Write 1000 tests that do nothing, in two ways."""
    for name in ("one", "many"):
        (folder / name).mkdir()
        (folder / name / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "one" / "test_one.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(1000))\ndef test_n(n): pass\n",
        encoding="utf-8",
    )
    text = "".join(f"def test_{n}(): pass\n" for n in range(100))
    for n in range(10):
        (folder / "many" / f"test_{n}.py").write_text(text, encoding="utf-8")


class Runs:
    """Runs pytest in an arm and a scene."""

    def __init__(self, folder: Path, arms: dict[str, tuple[Path, ...]]) -> None:
        self._folder = folder
        self._arms = arms

    def _command(self, scene: str) -> tuple[list[str], Path]:
        name, arguments = _SCENES[scene]
        command = [sys.executable, "-s", "-S", "-m", "pytest", "-p", "no:cacheprovider"]
        return [*command, *arguments], self._folder / name

    def _environment(self, arm: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
        path = os.pathsep.join(str(folder) for folder in self._arms[arm])
        return kept | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}

    def seconds(self, arm: str, scene: str) -> tuple[float, float]:
        """Return CPU seconds and wall seconds of one run."""
        command, folder = self._command(scene)
        begin_s = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=self._environment(arm), stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"pytest with {arm or 'neither'} ended with {process.returncode}")
        return usage.ru_utime + usage.ru_stime, wall_s

    def instructions(self, arm: str, scene: str) -> int:
        """Return how many instructions one run takes, as valgrind counts them."""
        command, folder = self._command(scene)
        counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = subprocess.run(
            [*counter, *command],
            cwd=folder,
            env=self._environment(arm),
            capture_output=True,
            text=True,
            check=True,
        )
        match = re.search(r"Collected : (\d+)", done.stderr)
        if match is None:
            raise SystemExit(f"valgrind counted nothing:\n{done.stderr}")
        return int(match[1])

    def imported(self) -> str:
        """Return which modules that a run without a perf case must not import were imported."""
        code = (
            "import sys, pytest; pytest.main(['-q', '-p', 'no:cacheprovider']); "
            f"print(sorted(set({_FORBIDDEN}) & set(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self._folder / "one",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr.strip()


def print_added(what: str, unit: str, rounds: list[dict[str, float]]) -> None:
    """Print what each arm adds to the run without a plugin, and both ratios."""
    without = statistics.median(seconds[""] for seconds in rounds)
    print(f"  {what}: {without:.0f} {unit} with neither")
    added: dict[str, float] = {}
    for arm in rounds[0]:
        if not arm:
            continue
        values = [seconds[arm] - seconds[""] for seconds in rounds]
        added[arm] = statistics.median(values)
        spread = ""
        if len(values) > 1:
            low, _, high = statistics.quantiles(values, n=4)
            spread = f" (quartiles {low:.1f} to {high:.1f})"
        print(f"    {arm} adds {added[arm]:.1f} {unit}{spread}, {added[arm] / without:.1%}")
    print(
        f"    {_PLUGIN} / {_PEER}: {added[_PLUGIN] / added[_PEER]:.2f} (goal: at most 1), of the "
        f"run: {added[_PLUGIN] / without:.1%} (goal: at most 2.5%)"
    )
    print(
        f"    with a short list: {added[_SHORT] / added[_PEER]:.2f} and "
        f"{added[_SHORT] / without:.1%}"
    )


def main() -> None:
    """Print what each plugin adds, and what was imported."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="runs of each arm (40)")
    parser.add_argument("--instructions", action="store_true", help="count them, by valgrind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tests(folder)
        arms = make_arms(folder)
        runs = Runs(folder, arms)
        for scene in _SCENES:
            print(scene)
            for arm in arms:
                runs.seconds(arm, scene)  # writes what pytest compiles
            if options.instructions:
                counted = {arm: runs.instructions(arm, scene) / 1e6 for arm in arms}
                print_added("instructions", "million", [counted])
                continue
            timed = [
                {arm: runs.seconds(arm, scene) for arm in arms} for _ in range(options.rounds)
            ]
            for index, what in enumerate(("CPU time", "wall time")):
                print_added(
                    what,
                    "ms",
                    [
                        {arm: s[index] * 1e3 for arm, s in timed_round.items()}
                        for timed_round in timed
                    ],
                )
        print(f"of {', '.join(_FORBIDDEN)} was imported: {runs.imported()}")


if __name__ == "__main__":
    main()
