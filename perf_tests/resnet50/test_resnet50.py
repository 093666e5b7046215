from __future__ import annotations

import pytest

from perf_tests.resnet50.cases import CASES
from pytest_dlperf import Dlperf


@pytest.mark.dlperf(cases=CASES)
def test_resnet50(dlperf: Dlperf) -> None:
    dlperf.run()
