"""What the start of every ``dlperf`` command loads."""

from __future__ import annotations

import json
import subprocess
import sys

#: Each is loaded by the commands that compute with it.
HEAVY = {"numpy", "scipy", "sqlalchemy", "filelock", "pytest"}
STAGES = {"judge", "flow", "launch.process", "measure.logs"}


def test_the_command_line_is_declared_without_what_commands_compute_with():
    program = "import json, sys, pytest_dlperf.cli.main; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert not HEAVY & loaded
    assert not {f"pytest_dlperf.{stage}" for stage in STAGES} & loaded
