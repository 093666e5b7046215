"""Show that each import contract fails: plant an import that crosses its wall in a copy.

By hand, with import-linter installed (tox env static)::

    .tox/static/bin/python tests/mutants/planted_imports.py

Ends with 1 if a contract of ``pyproject.toml`` has no planted import here, or does not fail.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from run import ROOT, copy_tree

#: By the contract's id: the file, and the import that must not be there.
PLANTED: Final = {
    "flow": ("pytest_dlperf/judge/verdict.py", "from pytest_dlperf.measure import nvml"),
    "no-pytest-inside": ("pytest_dlperf/flow/pipeline.py", "import pytest"),
    "no-framework-outside-worker": ("pytest_dlperf/measure/summary.py", "import torch"),
    "worker-is-small": ("pytest_dlperf/worker/loop.py", "import numpy"),
    "far-end-is-stdlib": ("pytest_dlperf/launch/process/tree.py", "import filelock"),
    "judge-is-pure": ("pytest_dlperf/core/run.py", "import os"),
    "checks-apart": (
        "pytest_dlperf/judge/checks/level.py",
        "from pytest_dlperf.judge.checks import loss",
    ),
    "judge-in-order": (
        "pytest_dlperf/judge/checks/level.py",
        "from pytest_dlperf.judge.words import phrases",
    ),
    "suites-apart": ("perf_tests/tsm/recipe.py", "from perf_tests.resnet50 import cases"),
}


def main() -> int:
    """Run, print a line a contract, and return the exit code."""
    toml = (ROOT / "pyproject.toml").read_text("utf-8")
    contracts = re.findall(r'^id = "(.+)"\nname = "(.+)"$', toml, re.MULTILINE)
    silent = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for name, title in contracts:
            copy_tree(copy)
            if name in PLANTED:
                path, line = PLANTED[name]
                text = (copy / path).read_text("utf-8")
                first = "from __future__ import annotations\n"
                (copy / path).write_text(text.replace(first, f"{first}{line}\n", 1), "utf-8")
            fails = name in PLANTED and f"{title} BROKEN" in _lint(copy)
            silent += not fails
            planted = ": ".join(PLANTED.get(name, ("nothing is planted",)))
            print(f"{'fails' if fails else 'SILENT':<7} {name}; {planted}")
    return int(silent > 0)


def _lint(copy: Path) -> str:
    """Return what import-linter says of the copy, in one line, as it wraps long names."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join(done.stdout.split())


if __name__ == "__main__":
    sys.exit(main())
