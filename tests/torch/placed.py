"""A training that first says where it runs: for tests of prefixes and interpreters."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import workloads

import pytest_dlperf


def build(job):
    said = {
        "nice": os.nice(0),
        "FOO": os.environ.get("DLPERF_TEST_FOO"),
        "python": sys.executable,
        "package": pytest_dlperf.__file__,
        "threads": os.environ["OMP_NUM_THREADS"],
    }
    Path(os.environ["DLPERF_RUN"], f"place{job.rank}.json").write_text(json.dumps(said))
    return workloads.build(job)
