"""Suites train at tiny size, for real, under their marker, in one and in two processes.

In float32; in bfloat16 those with a reader train on real data in test_real_data.py. HRNet, Llama
and DLRM have files of their own. Every suite trains with two ranks, and with faults, in
test_planted_in_each_suite.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.torch
#: Without a reader of real data: no other session of the gate has them.
UNREAD = ("bert", "transformer")
SUITES = ("arcface", *UNREAD, "deeplabv3p", "resnet50", "tsm")
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


@pytest.mark.parametrize(
    ("precision", "suites"),
    [
        pytest.param("fp32", UNREAD, id="fp32"),
        # test_real_data.py has sessions of the others; these add losses that fall over 150
        # iterations.
        *(
            pytest.param(precision, (suite,), id=f"{precision}-{suite}", marks=pytest.mark.nightly)
            for precision in DTYPES
            for suite in SUITES
            if precision != "fp32" or suite not in UNREAD
        ),
    ],
)
def test_suites_train_at_tiny_size(tmp_path: Path, precision: str, suites: tuple[str, ...]):
    which = f"torch and {precision} and ({' or '.join(suites)})"
    done, outcomes = train_suites(tmp_path, which, "--cpus=1,2")
    assert done.returncode == 0, done.stdout
    found = {
        (o["case"]["suite"], o["case"]["precision"], o["measurement"]["conditions"]["world_size"])
        for o in outcomes
    }
    assert found == {(s, precision, n) for s in suites for n in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        assert measurement is not None, outcome["judgement"]["reason"]
        # What others do to this machine is no fault of the suite.
        problems = {problem["code"] for problem in measurement["problems"]}
        assert problems <= {"disturbed", "drift", "implausible-speedup"}
        assert measurement["conditions"]["dtype"] == DTYPES[precision]
        run = measurement["runs"][0]
        assert len(run["step_seconds"]) == 150
        assert len(run["ranks"]) == measurement["conditions"]["world_size"]
        assert_losses_fell(run)
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
