"""Sort outcomes for reports: failed first, then those not judged, passed last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, NOT_JUDGED, KnownState, Verdict


class Standing(IntEnum):
    """Where pytest counts a test; the worst is the least."""

    FAILED = 0
    #: Neither passed nor failed: not judged, or a slowdown or an error that fails nothing.
    APART = 1
    PASSED = 2


#: The worst first.
_WORST: Final = (
    Verdict.REGRESSED,
    Verdict.ERROR,
    Verdict.INCOMPARABLE,
    Verdict.UNSTEADY,
    Verdict.INCONCLUSIVE,
    Verdict.NO_BASELINE,
    Verdict.NOT_RUN,
    Verdict.PASSED,
    Verdict.IMPROVED,
)


def standing(outcome: Outcome) -> Standing:
    """Return how the test of ``outcome`` is counted."""
    judgement = outcome.judgement
    if outcome.failed:
        return Standing.FAILED
    if outcome.update:
        return Standing.PASSED
    # Observe mode lets a slowdown pass, and xfail an error; neither is a pass for that
    is_known = judgement.known is KnownState.KNOWN
    return Standing.APART if is_known or judgement.verdict not in GOOD else Standing.PASSED


def worst_first(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes with what failed first, and of one verdict the slowest first."""

    def key(outcome: Outcome) -> tuple[int, int, float]:
        judgement = outcome.judgement
        change = judgement.throughput.change or 0.0
        return standing(outcome), _WORST.index(judgement.verdict), change

    return sorted(outcomes, key=key)


def headline(outcomes: Sequence[Outcome]) -> str:
    """Return how many there are of each verdict: ``3 cases: 1 regressed, 2 passed``."""
    counts = {
        verdict: sum(o.judgement.verdict is verdict and not o.update for o in outcomes)
        for verdict in Verdict
    }
    updated = sum(bool(o.update) for o in outcomes)
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    if updated:
        parts.append(f"{updated} written to the baselines")
    line = f"{len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}"
    line += ": " + ", ".join(parts) if parts else ""
    not_judged = sum(count for verdict, count in counts.items() if verdict in NOT_JUDGED)
    return f"{line}; {not_judged} NOT JUDGED" if not_judged else line
