"""Which verdicts launches with a profile explain, where nothing was asked."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.flow.explain import REGRESSED, is_wanted, slower_rate

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


@pytest.mark.parametrize(
    ("throughput", "window", "expected"),
    [(SLOWER, SLOWER, -0.1), (SLOWER, PASSED, -0.1), (PASSED, SLOWER, -0.2), (OPEN, OPEN, -0.1)],
)
def test_a_profile_is_to_show_the_rate_that_regressed(
    throughput: Verdict, window: Verdict, expected: float
):
    judgement = Judgement(
        verdict=SLOWER,
        reason="",
        throughput=Comparison(verdict=throughput, change=-0.1),
        metrics={"whole_window": Comparison(verdict=window, change=-0.2)},
    )
    assert slower_rate(judgement).change == expected
