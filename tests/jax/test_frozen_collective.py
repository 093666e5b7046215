"""What ranks of JAX survive that are frozen within a collective: heartbeats, of 100 s at most."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_dlperf.launch.base import free_port
from tests.helpers.frozen_collective import COUNT, freeze_within_collectives

pytestmark = [pytest.mark.jax, pytest.mark.nightly]
PROGRAM = (
    COUNT
    + """
import jax
import numpy as np
from jax.experimental import multihost_utils

jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
while True:
    multihost_utils.process_allgather(np.ones(1))
    count(jax.process_index())
"""
)


@pytest.mark.parametrize("who", ["all", "first", "last"])
def test_it_goes_on(tmp_path: Path, who: str):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    rank = f"{sys.executable} {tmp_path / 'program.py'} {tmp_path} 127.0.0.1:{free_port()}"
    freeze_within_collectives(
        tmp_path,
        ["sh", "-c", f"{rank} 0 & {rank} 1 & wait"],
        who,
        60.0,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
