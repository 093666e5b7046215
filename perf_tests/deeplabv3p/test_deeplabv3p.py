from __future__ import annotations

import pytest

from perf_tests.deeplabv3p.cases import CASES
from pytest_dlperf import Dlperf


@pytest.mark.dlperf(cases=CASES)
def test_deeplabv3p(dlperf: Dlperf) -> None:
    dlperf.run()
