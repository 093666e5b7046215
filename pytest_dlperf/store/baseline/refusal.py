"""Why an outcome is not stored: never, or not without a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.measurement import CUT_SHORT
from pytest_dlperf.core.verdict import Verdict

if TYPE_CHECKING:
    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.measurement import Measurement
    from pytest_dlperf.core.outcome import Outcome

_NOT_MEASURED: Final = frozenset({Verdict.ERROR, Verdict.NOT_RUN})
_NEED_REASON: Final = frozenset({Verdict.REGRESSED, Verdict.UNSTEADY, Verdict.INCOMPARABLE})
_ALWAYS: Final = "this is refused whatever the reason"
_GIVE_REASON: Final = (
    "if it is to be the baseline all the same, say why with --dlperf-reason=TEXT "
    "(dlperf baselines accept: --reason=TEXT)"
)


#: Verdicts that observe mode stores beside the others, since it is to learn how often they come.
OBSERVED: Final = frozenset({Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNSTEADY})


def refusal(
    outcome: Outcome,
    *,
    reason: str,
    dirty: bool,
    protocol_window: tuple[int, int],
    observe: bool = False,
) -> str | None:
    """Return the sentence why ``outcome`` is not stored; None if it may be.

    ``protocol_window`` is the window that the case declares, ``dirty`` whether tracked files
    outside the baselines are modified, ``observe`` whether nothing is gated.
    """
    why = _never(outcome, protocol_window)
    if why:
        return f"{outcome.case.id}: {why}; {_ALWAYS}"
    why = _doubt(outcome, dirty=dirty, observe=observe)
    if why and not reason.strip():
        return f"{outcome.case.id}: {why}; {_GIVE_REASON}"
    return None


def conditions_changed(
    baseline: Baseline | None, measurement: Measurement, case_id: str
) -> str | None:
    """Return why a measurement is not put over a baseline of other conditions, if it is one.

    The file may have changed since the outcome was judged.
    """
    if baseline is None or baseline.conditions is None:
        return None
    found = measurement.conditions.differences(baseline.conditions)
    if not found:
        return None
    return f"{case_id}: the stored conditions are others ({', '.join(found)}); {_GIVE_REASON}"


def _never(outcome: Outcome, protocol_window: tuple[int, int]) -> str:
    verdict, measurement = outcome.judgement.verdict, outcome.measurement
    if verdict in _NOT_MEASURED:
        return f"the verdict is {verdict} ({outcome.judgement.reason.partition(chr(10))[0]})"
    if measurement is None or not measurement.runs:
        return "nothing was measured"
    if outcome.against is not None:
        return f"it was measured against {outcome.against.name}, in pairs, and not for a baseline"
    if outcome.environment is None:
        return "the machine is not recorded"
    if measurement.inject != 0:
        return f"its steps were made {100 * measurement.inject:.3g} % longer by --dlperf-inject"
    short = [problem.message for problem in measurement.problems if problem.code == CUT_SHORT]
    if short:
        return short[0]
    found = measurement.conditions.window
    if tuple(found) != tuple(protocol_window):
        return (
            f"iterations {found[0]} to {found[1]} were measured and the case declares "
            f"{protocol_window[0]} to {protocol_window[1]}, so leave --dlperf-iterations and "
            "--dlperf-warmup out"
        )
    return ""


def _doubt(outcome: Outcome, *, dirty: bool, observe: bool) -> str:
    verdict, measurement = outcome.judgement.verdict, outcome.measurement
    if verdict in _NEED_REASON and not (observe and verdict in OBSERVED):
        return f"the verdict is {verdict}"
    disturbed = [p for p in measurement.problems if p.code == "disturbed"] if measurement else []
    if disturbed:
        return disturbed[0].message
    if dirty:
        return (
            "tracked files outside the baselines folder are modified, so the commit does not "
            "say what was measured"
        )
    return ""
