"""Show that the tests find planted faults: apply each to a copy, and run the tests that must fail.

By hand, after ``tox`` and ``.ci/run``, whose environments it uses::

    python tests/mutants/run.py                # all; -k WORD: those with the word in their name

Ends with 1 if a mutant survives, or if its tests fail without it or are left out of their layer.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
#: The options by which the layer of each environment chooses its tests.
_LAYERS = {
    "newest": ["-m", "not (slow or nightly or once)", "--first-parameters"],
    "torch": ["-m", "not nightly and not long_fault"],
}


def main() -> int:
    """Run, print a line a mutant, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", metavar="WORD", default="", help="only mutants named so")
    parser.add_argument("--env", choices=_LAYERS, help="only mutants that its tests find")
    parser.add_argument(
        "--python",
        metavar="ENV=PATH",
        action="append",
        default=[],
        help="the interpreter of an environment (.tox/ENV/bin/python)",
    )
    options = parser.parse_args()
    pythons = {env: str(ROOT / ".tox" / env / "bin" / "python") for env in _LAYERS}
    pythons |= dict(text.split("=", 1) for text in options.python)
    chosen = [
        mutant
        for mutant in MUTANTS
        if options.k in mutant.name and options.env in {None, mutant.env}
    ]
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for mutant in chosen:
            begin_s = time.monotonic()
            found = _verdict(mutant, copy, pythons[mutant.env])
            survived += found != "caught"
            print(
                f"{found:<10} {mutant.env:<7} {time.monotonic() - begin_s:4.0f} s  {mutant.name}",
                flush=True,
            )
    in_tox = sum(mutant.env == "newest" for mutant in chosen)
    print(f"{len(chosen) - survived} of {len(chosen)} caught; {in_tox} of them are tox's to catch")
    return int(survived > 0)


def _verdict(mutant: Mutant, copy: Path, python: str) -> str:
    """Return ``caught``, or what is wrong."""
    copy_tree(copy)
    if _pytest(mutant, copy, python) != 0:
        return "BROKEN"  # its tests fail without it
    files = [
        p for p in (copy / "pytest_dlperf").rglob("*.py") if mutant.line in p.read_text("utf-8")
    ]
    if len(files) != 1:
        return f"IN {len(files)} FILES"
    text = files[0].read_text("utf-8")
    files[0].write_text(text.replace(mutant.line, mutant.broken, 1), "utf-8")
    return "caught" if _pytest(mutant, copy, python) == 1 else "SURVIVED"


def copy_tree(copy: Path) -> None:
    """Copy the files of the repository, as they are in the working tree."""
    shutil.rmtree(copy, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _pytest(mutant: Mutant, copy: Path, python: str) -> int:
    """Return pytest's exit code: 1 where a test failed; 5, no test, is no proof of anything."""
    done = subprocess.run(
        [
            python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
            *_LAYERS[mutant.env], *shlex.split(mutant.tests),
        ],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},  # before what is installed
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )  # fmt: skip
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
