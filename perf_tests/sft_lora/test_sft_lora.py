from __future__ import annotations

import importlib.util

import pytest

from pytest_dlperf import Dlperf

from .cases import CASES

NEEDED = ("transformers", "peft", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"pip install {' '.join(MISSING)}")
@pytest.mark.dlperf(cases=CASES)
def test_sft_lora(dlperf: Dlperf) -> None:
    case = dlperf.case
    if case.launcher == "none" and case.layout.device == "cpu" and case.world_size > 1:
        pytest.skip("accelerate starts several processes on CPUs by MPI alone")
    dlperf.run()
