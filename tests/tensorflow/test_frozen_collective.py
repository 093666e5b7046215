"""What ranks under Horovod survive that are frozen: their threads never cease to talk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers.frozen_collective import COUNT, freeze_within_collectives

pytestmark = [pytest.mark.tensorflow, pytest.mark.nightly]
PROGRAM = (
    COUNT
    + """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
while True:
    hvd.allreduce(tf.ones([1 << 16]), op=hvd.Sum, name="ones")
    count(hvd.rank())
"""
)


@pytest.mark.parametrize("who", ["all", "first", "last"])
def test_it_goes_on(tmp_path: Path, who: str):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    horovodrun = Path(sys.executable).with_name("horovodrun")
    options = ("--gloo", "--disable-cache", "--num-proc=2", "--hosts=localhost:2")
    freeze_within_collectives(
        tmp_path,
        [str(horovodrun), *options, sys.executable, str(tmp_path / "program.py"), str(tmp_path)],
        who,
        60.0,
        # As ranks of an arm have it: see launch/plan.py
        env={**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "600"},
    )
