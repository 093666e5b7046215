"""Suites train at tiny size, for real, under their marker, in one and in two processes.

HRNet does in a file of its own. Every suite trains with two ranks, and with faults, in
test_paddle_planted_in_each_suite.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.paddle
#: Without a reader of real data.
UNREAD = ("bert", "transformer")
SUITES = ("arcface", *UNREAD, "deeplabv3p", "llama", "resnet50", "tsm")


@pytest.mark.parametrize(
    "suites",
    [
        pytest.param(UNREAD, id="unread"),
        # The gate trains each of the others without a launcher, and TSM on real data.
        *(
            pytest.param((suite,), id=suite, marks=pytest.mark.nightly)
            for suite in SUITES
            if suite not in UNREAD
        ),
    ],
)
def test_suites_train_at_tiny_size(tmp_path: Path, suites: tuple[str, ...]):
    which = f"paddle and ({' or '.join(suites)})"
    done, outcomes = train_suites(tmp_path, which, "--cpus=1,2")
    assert done.returncode == 0, done.stdout
    found = {(o["case"]["suite"], o["measurement"]["conditions"]["world_size"]) for o in outcomes}
    assert found == {(suite, ranks) for suite in suites for ranks in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        assert measurement["conditions"]["dtype"] == "float32"
        for run in measurement["runs"]:
            assert len(run["step_seconds"]) == 150
            assert len(run["ranks"]) == measurement["conditions"]["world_size"]
            assert_losses_fell(run)
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
