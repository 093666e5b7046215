"""Verdicts: pure functions that compare measured values with stored ones.

``judge`` returns the verdict on one case, ``more_runs`` how many further runs it needs, and
``family_size`` the number of cases that the error rate is split over. ``docs/verdicts.md``
explains the rule.
"""

from __future__ import annotations

from pytest_dlperf.judge.screen import more_runs
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.judge.verdict import judge

__all__ = ["family_size", "judge", "more_runs"]
