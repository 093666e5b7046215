from __future__ import annotations

import pytest

from pytest_dlperf import Dlperf

from .cases import CASES


@pytest.mark.dlperf(cases=CASES)
def test_hrnet(dlperf: Dlperf) -> None:
    dlperf.run()
