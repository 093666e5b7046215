"""The program beside this file, unchanged: started by the launcher, read by its log."""

from __future__ import annotations

import pytest

from pytest_dlperf import pattern

LOG = pattern(
    r"step (?P<step>\d+): loss (?P<loss>\S+), (?P<rate>\S+) images/s",
    scope="device",  # every rank prints its own rate
    averaging="window",  # of the iterations since the last print
    unit="images",
)


@pytest.mark.dlperf(
    command=["python", "train.py", "--iterations={iterations}", "--batch-size=64"],
    log_format=LOG,
    framework="torch",
    launcher="auto",
    layout=["1n1c", "1n2c"],
    batch_size_per_device=64,
    unit="images",
)
def test_own_program(dlperf):
    dlperf.run()
