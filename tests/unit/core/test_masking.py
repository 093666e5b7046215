from __future__ import annotations

import pytest

from pytest_dlperf.core.place import masked


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("docker run -e TOKEN=hunter2 -e HOME image", "docker run -e TOKEN=… -e HOME image"),
        ("docker run --env=TOKEN=a=b -eKEY=c image", "docker run --env=TOKEN=… -eKEY=… image"),
        ("env OMP_NUM_THREADS=4 KEY=x python", "env OMP_NUM_THREADS=4 KEY=… python"),
        ("docker run --gpus=all --shm-size=8g i", "docker run --gpus=all --shm-size=8g i"),
        ("env -u A 'nice thing'", "env -u A 'nice thing'"),
    ],
)
def test_values_are_masked_and_nothing_else(command: str, shown: str) -> None:
    assert masked(command) == shown
