from __future__ import annotations

import pytest

from perf_tests.tsm.cases import CASES
from pytest_dlperf import Dlperf


@pytest.mark.dlperf(cases=CASES)
def test_tsm(dlperf: Dlperf) -> None:
    dlperf.run()
