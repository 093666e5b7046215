"""The program beside this file marks its steps; nothing is read from its log."""

from __future__ import annotations

import pytest


@pytest.mark.dlperf(
    command=["python", "train.py", "--iterations={iterations}"],
    framework="torch",
    layout=["1n1c", "1n2c"],
    batch_size_per_device=8,
    unit="tokens",
)
def test_marked_program(dlperf):
    dlperf.run()
