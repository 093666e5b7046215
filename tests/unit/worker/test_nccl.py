from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_dlperf.worker.nccl import nccl_of_paddle, nccl_version


@pytest.mark.parametrize(
    ("code", "version"), [(0, None), (2804, "2.8.4"), (21805, "2.18.5"), (22703, "2.27.3")]
)
def test_nccl_is_written_as_people_write_it(code: int, version: str | None):
    assert nccl_version(code) == version


@pytest.mark.parametrize("told", ["False", "0", False])
def test_a_paddle_without_cuda_has_none(told: object):
    assert nccl_of_paddle(SimpleNamespace(nccl=lambda: told)) is None
