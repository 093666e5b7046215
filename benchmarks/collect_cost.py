"""What the installed plugin costs a pytest run without a perf case, and what it imports."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROUNDS = 40
_FORBIDDEN = ("numpy", "scipy", "filelock", "torch", "paddle", "tensorflow")


def collect_s(folder: Path, *arguments: str) -> float:
    """Return wall seconds of one ``pytest --collect-only``."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    begin_s = time.perf_counter()
    subprocess.run(
        [*command, *arguments, str(folder)], check=True, stdout=subprocess.DEVNULL, cwd=folder
    )
    return time.perf_counter() - begin_s


def main() -> None:
    """Print the difference of paired runs, and what was imported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (folder / "test_many.py").write_text(
            "import pytest\n@pytest.mark.parametrize('n', range(1000))\ndef test_n(n): pass\n",
            encoding="utf-8",
        )
        without = ("-p", "no:pytest_dlperf.plugin")
        collect_s(folder)
        collect_s(folder, *without)
        pairs = [(collect_s(folder), collect_s(folder, *without)) for _ in range(_ROUNDS)]
        code = (
            "import sys, pytest; pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', "
            f"{str(folder)!r}]); print(sorted(m for m in {_FORBIDDEN} if m in sys.modules), "
            "file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
        )
    added_ms = [(a - b) * 1e3 for a, b in pairs]
    quartiles = statistics.quantiles(added_ms, n=4)
    print(
        f"plugin adds {statistics.median(added_ms):.1f} ms (quartiles {quartiles[0]:.1f} to "
        f"{quartiles[2]:.1f}) to {statistics.median(b for _, b in pairs) * 1e3:.0f} ms, over "
        f"{_ROUNDS} pairs (goal: under 5 ms)"
    )
    print(f"of {', '.join(_FORBIDDEN)} it imported: {done.stderr.strip()}")


if __name__ == "__main__":
    main()
