"""All suites but HRNet train at tiny size, for real, in one and in two processes.

HRNet does in a file of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.paddle
SUITES = ("arcface", "bert", "deeplabv3p", "resnet50", "transformer", "tsm")


def test_every_suite_trains_at_tiny_size(tmp_path: Path):
    which = f"paddle and ({' or '.join(SUITES)})"
    done, outcomes = train_suites(tmp_path, which, "--cpus=1,2")
    assert done.returncode == 0, done.stdout
    found = {(o["case"]["suite"], o["measurement"]["conditions"]["world_size"]) for o in outcomes}
    assert found == {(suite, ranks) for suite in SUITES for ranks in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        assert measurement["conditions"]["dtype"] == "float32"
        for run in measurement["runs"]:
            assert len(run["step_seconds"]) == 150
            assert len(run["ranks"]) == measurement["conditions"]["world_size"]
            assert_losses_fell(run)
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
