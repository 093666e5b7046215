"""The stage that decides: pure functions from measured and stored values to a verdict.

``judge`` decides about one case, ``more_runs`` when there is enough to decide, ``family_size``
over how many comparisons the error rate is split. The rule is written out in
``docs/verdicts.md``.
"""

from __future__ import annotations

from pytest_dlperf.judge.estimates import judge
from pytest_dlperf.judge.screen import more_runs
from pytest_dlperf.judge.stats.family import family_size

__all__ = ["family_size", "judge", "more_runs"]
