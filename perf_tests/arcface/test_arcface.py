from __future__ import annotations

import pytest

from perf_tests.arcface.cases import CASES
from pytest_dlperf import Dlperf


@pytest.mark.dlperf(cases=CASES)
def test_arcface(dlperf: Dlperf) -> None:
    dlperf.run()
