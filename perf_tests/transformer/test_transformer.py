from __future__ import annotations

import pytest

from pytest_dlperf import Dlperf

from .cases import CASES


@pytest.mark.dlperf(cases=CASES)
def test_transformer(dlperf: Dlperf) -> None:
    dlperf.run()
