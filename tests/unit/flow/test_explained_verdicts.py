"""Which verdicts launches with a profile explain, where nothing was asked."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.flow.explain import REGRESSED, is_wanted

SLOWER, PASSED, OPEN = Verdict.REGRESSED, Verdict.PASSED, Verdict.INCONCLUSIVE


class Asked:
    """A session's policy, without ``--dlperf-explain``."""

    explain = ""


@pytest.mark.parametrize(
    ("throughput", "metrics", "expected"),
    [
        (SLOWER, {}, True),
        # By its median open or passed, and slower as a whole
        (OPEN, {"whole_window": SLOWER}, True),
        (PASSED, {"whole_window": SLOWER}, True),
        (PASSED, {"peak_memory": SLOWER}, True),
        (PASSED, {"cpu_seconds": SLOWER}, False),
    ],
)
def test_what_a_profile_can_explain(
    throughput: Verdict, metrics: dict[str, Verdict], expected: bool
):
    judgement = Judgement(
        verdict=SLOWER,
        reason="",
        throughput=Comparison(verdict=throughput),
        metrics={name: Comparison(verdict=verdict) for name, verdict in metrics.items()},
    )
    policy: Any = Asked()
    assert is_wanted(policy, judgement, default=REGRESSED) is expected
