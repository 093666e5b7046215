"""ReFrame: the throughput against ``reference = {"*": {"throughput": (before, -0.05, None)}}``.

Several runs are judged by their mean, and the reference is that of the stored runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from reframe.core.exceptions import SanityError
from reframe.utility import sanity

from verdict_rules.peer import PeerRule

if TYPE_CHECKING:
    from verdict_rules.peer import Seconds


def _throughput(side: Seconds) -> float:
    return float((1 / side.mean(axis=1)).mean())


def _regressed(lower: float, before: Seconds, now: Seconds) -> bool:
    found = sanity.assert_reference(_throughput(now), _throughput(before), lower, None)
    try:
        sanity.evaluate(found)
    except SanityError:
        return True
    return False


RULES: Final = tuple(
    PeerRule(
        name=f"ReFrame {lower:+.0%}",
        tool="ReFrame",
        level="run",
        usual_runs=1,
        regressed=partial(_regressed, lower),
    )
    for lower in (-0.05, -0.03)
)
