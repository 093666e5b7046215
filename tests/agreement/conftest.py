from __future__ import annotations

from collections.abc import Iterator

import paddle
import pytest


@pytest.fixture(params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the dtype of weights and batch; Paddle's optimizers take the default one."""
    paddle.set_default_dtype(request.param)
    yield request.param
    paddle.set_default_dtype("float32")
