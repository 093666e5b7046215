from __future__ import annotations

import importlib.util

import pytest

from pytest_dlperf import Dlperf

from .cases import CASES

HAS_TORCHAO = importlib.util.find_spec("torchao") is not None


@pytest.mark.dlperf(cases=CASES)
def test_llama(dlperf: Dlperf) -> None:
    case = dlperf.case
    # On GPUs such a case is not-run by itself; a CPU has the operator without the package
    if case.precision == "fp8" and case.layout.device == "cpu" and not HAS_TORCHAO:
        pytest.skip("precision fp8 of this suite needs torchao: pip install torchao")
    dlperf.run()
