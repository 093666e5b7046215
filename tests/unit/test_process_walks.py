"""Walks through the processes of a host, which end while they are looked at."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: ``Path.glob`` asks whether the file behind a wildcard is there, and raises what it does not
#: know: ESRCH where the process ends meanwhile.
GLOBS_BELOW_A_PROCESS = re.compile(r"""/proc[^"'\n]*["']\)\.r?glob\(["'][^"'\n]*/""")


def test_no_walk_names_a_file_behind_a_wildcard_of_processes():
    files = [
        path
        for folder in ("pytest_dlperf", "tests", "benchmarks", "perf_tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 1000
    assert GLOBS_BELOW_A_PROCESS.search('Path("/proc").glob("[0-9]*/cmdline")')
    walks = [p for p in files if GLOBS_BELOW_A_PROCESS.search(p.read_text(encoding="utf-8"))]
    assert walks == [Path(__file__)]
