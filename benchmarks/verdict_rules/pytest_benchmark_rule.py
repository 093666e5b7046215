"""pytest-benchmark: ``--benchmark-compare-fail=mean:5%``, on the statistics of all rounds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import parse_compare_fail

from verdict_rules.peer import PeerRule, iterations

if TYPE_CHECKING:
    from verdict_rules.peer import Seconds


def _fields(side: Seconds, field: str) -> dict[str, float]:
    stats = Stats()
    for seconds in iterations(side):
        stats.update(seconds)
    return {field: getattr(stats, field)}


def _regressed(setting: str, before: Seconds, now: Seconds) -> bool:
    check = parse_compare_fail(setting)
    return bool(check.fails(_fields(now, check.field), _fields(before, check.field)))


RULES: Final = tuple(
    PeerRule(
        name=f"pytest-benchmark {setting}",
        tool="pytest-benchmark",
        level="iteration",
        usual_runs=1,
        regressed=partial(_regressed, setting),
    )
    for setting in ("mean:5%", "min:5%")
)
