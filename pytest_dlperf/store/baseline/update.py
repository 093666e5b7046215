"""Update a baseline with an outcome, or refuse to.

``--update-baselines`` and ``dlperf baselines accept`` both come here, and give the same bytes
for the same outcomes: every time is the outcome's, none is that of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_dlperf.core.baseline import (
    OBSERVED_KNOWN,
    Baseline,
    ReplacedLevel,
    Session,
    instant,
)
from pytest_dlperf.core.errors import UpdateRefusedError
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, Judgement, KnownState, Verdict
from pytest_dlperf.store.baseline.describe import describe
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.stored_session import session_of

if TYPE_CHECKING:
    JudgeAgain: TypeAlias = Callable[[Outcome, Baseline | None], Judgement]


_NOT_MEASURED: Final = frozenset({Verdict.ERROR, Verdict.NOT_RUN})
#: Verdicts that show that a session belongs to the level, begins it, or is a better one: only
#: these are stored without a reason.
_SHOWN: Final = frozenset({Verdict.NO_BASELINE, Verdict.PASSED, Verdict.IMPROVED})
_WHAT_DECIDES: Final = {
    Verdict.INCONCLUSIVE: ", so nothing shows that this session is at its level: compare it with "
    "the stored version by --dlperf-against=REF",
}
_ALWAYS: Final = "no reason overrides this"
_GIVE_REASON: Final = "if it is to be the baseline all the same, say why with --dlperf-reason=TEXT"


#: Verdicts that observe mode sets aside, since it is to learn how often they come.
OBSERVED: Final = frozenset(
    {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNSTEADY, Verdict.INCONCLUSIVE}
)


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
    outside the baselines are modified, ``observe`` whether what is not shown is set aside.
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
    differing = measurement.conditions.differences(baseline.conditions)
    if not differing:
        return None
    return f"{case_id}: the stored conditions are others ({', '.join(differing)}); {_GIVE_REASON}"


def _never(outcome: Outcome, protocol_window: tuple[int, int]) -> str:
    verdict, measurement = outcome.judgement.verdict, outcome.measurement
    if verdict in _NOT_MEASURED:
        return f"the verdict is {verdict} ({outcome.judgement.first_line})"
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
    window = measurement.conditions.window
    if tuple(window) != tuple(protocol_window):
        return (
            f"iterations {window[0]} to {window[1]} were measured and the case declares "
            f"{protocol_window[0]} to {protocol_window[1]}, so leave --dlperf-iterations and "
            "--dlperf-warmup out"
        )
    return ""


def _doubt(outcome: Outcome, *, dirty: bool, observe: bool) -> str:
    verdict, measurement = outcome.judgement.verdict, outcome.measurement
    if verdict not in _SHOWN and not (observe and verdict in OBSERVED):
        return f"the verdict is {verdict}" + _WHAT_DECIDES.get(verdict, "")
    disturbed = [p for p in measurement.problems if p.code == "disturbed"] if measurement else []
    if disturbed:
        return disturbed[0].message
    if dirty:
        return (
            "tracked files outside the baselines folder are modified, so the commit does not "
            "say what was measured"
        )
    if outcome.checkout_problem:
        return (
            "git does not say which commit was measured, or whether tracked files are modified "
            f"({outcome.checkout_problem})"
        )
    return ""


def _doubt_of_order(baseline: Baseline, outcome: Outcome) -> str:
    """Return why older results that are stored later may be of another level, or nothing."""
    measured_at, level = instant(outcome.time), baseline.level
    if baseline.history and measured_at < instant(baseline.history[-1].replaced):
        return (
            "it was measured before the stored level replaced another, at "
            f"{baseline.history[-1].replaced}"
        )
    newest = max(level, key=lambda one: one.measured_at)
    if outcome.judgement.verdict in _NEW_LEVEL and measured_at < newest.measured_at:
        return f"it would replace newer sessions, the last of {newest.time}"
    return ""


__all__ = [
    "KEPT_SESSIONS",
    "Change",
    "JudgeAgain",
    "apply",
    "describe",
    "refusal",
    "session_of",
    "write",
]
#: Sessions of one level that are kept.
KEPT_SESSIONS: Final = 10
_NEW_LEVEL: Final = frozenset({Verdict.IMPROVED, Verdict.REGRESSED, Verdict.INCOMPARABLE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What became of one outcome."""

    case_id: str
    #: ``created``, ``appended``, ``replaced``, ``unchanged`` (stored already), ``refused``.
    what: str
    #: One line for people.
    text: str

    @property
    def refused(self) -> bool:
        """Whether nothing was written although it was asked for."""
        return self.what == "refused"


def _begins_level(outcome: Outcome, reason: str) -> bool:
    """Whether ``outcome`` replaces the level, where nothing is observed.

    Of what passed since the machine did it, the user says so by a reason: without one it shows how
    far the sessions of this machine differ.
    """
    if outcome.judgement.verdict in _NEW_LEVEL:
        return True
    second = outcome.confirmation
    did_machine = second is not None and second.stored.verdict in _NEW_LEVEL
    return did_machine and outcome.judgement.verdict in GOOD and bool(reason.strip())


def write(
    store: BaselineStore,
    outcome: Outcome,
    *,
    reason: str,
    judge_again: JudgeAgain,
    anchor: bool = False,
    observe: bool = False,
) -> Change:
    """Store ``outcome`` and return what changed; ``anchor``: hold later sessions to its level.

    Where the file no longer holds what the outcome was judged against, it is judged again. With
    ``observe`` and no reason, what looks slower or faster is stored beside the others.
    Raises ``UpdateRefusedError`` with the sentence why, and ``BaselineError`` if the file
    cannot be read or written; then nothing is changed.
    """
    _refuse(outcome, reason, observe=observe)
    measurement, machine_class = _measured(outcome)
    changed: list[tuple[Baseline | None, str]] = []
    has_reason = bool(reason.strip())

    def change(before: Baseline | None) -> Baseline:
        held = None if before is None else _held(before, outcome)
        if before is not None and held is not None:
            if observe or not held.is_set_aside or held not in before.sessions:
                changed.append((before, "unchanged"))
                return with_anchor(before, outcome) if anchor else before
            # Observe mode only noted it; now it is to be a level
            remaining = tuple(session for session in before.sessions if session is not held)
            before = replace(before, sessions=remaining)
        sentence = conditions_changed(before, measurement, outcome.case.id)
        if sentence and not has_reason:
            raise UpdateRefusedError(sentence)
        judged = outcome
        if (before.sessions if before else ()) != outcome.baseline_sessions:
            judged = replace(outcome, judgement=judge_again(outcome, before))
        # Nothing can be set aside from a level that is not there
        _refuse(judged, reason, observe=observe and before is not None)
        older = _doubt_of_order(before, judged) if before is not None else ""
        if older and not has_reason:
            raise UpdateRefusedError(f"{outcome.case.id}: {older}; {_GIVE_REASON}")
        after, what = apply(before, judged, reason=reason, today=outcome.time, observe=observe)
        if what != "unchanged" and outcome.environment and outcome.environment.packages:
            store.keep_packages(machine_class, outcome.environment.packages)
        changed.append((before, what))
        return with_anchor(after, outcome) if anchor else after

    after = store.update(machine_class, outcome.case.suite, outcome.case.id, change)
    before, what = changed[-1]
    text = describe(before, after, what, _held(after, outcome))
    return Change(case_id=outcome.case.id, what=what, text=text)


def _refuse(outcome: Outcome, reason: str, *, observe: bool) -> None:
    protocol = outcome.case.protocol
    sentence = refusal(
        outcome,
        reason=reason,
        dirty=outcome.dirty,
        protocol_window=protocol.declared_window or protocol.window,
        observe=observe,
    )
    if sentence is not None:
        raise UpdateRefusedError(sentence)


def apply(
    baseline: Baseline | None,
    outcome: Outcome,
    *,
    reason: str,
    today: str,
    observe: bool = False,
) -> tuple[Baseline, str]:
    """Return the baseline with ``outcome`` in it, and ``created``, ``appended`` or ``replaced``.

    A changed level or changed conditions replace the sessions; the old ones go to the history,
    dated ``today`` (ISO 8601). Else the session takes its place by time, and the last ten stay;
    ``unchanged`` if it is older than these. With ``observe`` a level changes for a reason only,
    and what was not shown to be at it is set aside: the last ten of those stay as well, and push
    no other out.
    """
    measurement, machine_class = _measured(outcome)
    verdict = outcome.judgement.verdict
    is_observed = observe and baseline is not None and not reason.strip() and verdict in OBSERVED
    session = session_of(outcome, reason=_observed(outcome) if is_observed else reason)
    if baseline is None:
        created = Baseline(
            case_id=outcome.case.id,
            machine_class=machine_class,
            suite=outcome.case.suite,
            unit=measurement.unit,
            sessions=(session,),
            conditions=measurement.conditions,
            anchor=session,
        )
        return created, "created"
    is_new_level = _begins_level(outcome, reason) and not is_observed
    if is_new_level or measurement.conditions != baseline.conditions:
        old = ReplacedLevel(
            replaced=today, reason=reason, unit=baseline.unit, sessions=baseline.sessions
        )
        replaced = replace(
            baseline,
            unit=measurement.unit,
            conditions=measurement.conditions,
            sessions=(session,),
            history=(*baseline.history, old),
            anchor=session,
        )
        return replaced, "replaced"
    sessions = _kept((*baseline.sessions, session))
    if session not in sessions:
        return baseline, "unchanged"
    first = min(baseline.level, key=_measured_at)
    anchor = baseline.anchor or first
    is_first = not session.is_set_aside and session.measured_at < first.measured_at
    if is_first and anchor.identity == first.identity:  # that of a release stays
        anchor = session
    return replace(baseline, sessions=sessions, anchor=anchor), "appended"


def _observed(outcome: Outcome) -> str:
    """Return the reason of a session that gate mode would not have put beside the others."""
    judgement = outcome.judgement
    if judgement.known is KnownState.KNOWN:
        return OBSERVED_KNOWN
    return f"observed: {judgement.verdict}"


def _kept(sessions: Sequence[Session]) -> tuple[Session, ...]:
    """Return the last sessions of the level, and of those that are set aside, oldest first."""
    by_time = sorted(sessions, key=_measured_at)
    aside = [session for session in by_time if session.is_set_aside][-KEPT_SESSIONS:]
    level = [session for session in by_time if not session.is_set_aside][-KEPT_SESSIONS:]
    return tuple(
        session for session in by_time if session in (aside if session.is_set_aside else level)
    )


def _measured_at(session: Session) -> datetime:
    return session.measured_at


def with_anchor(baseline: Baseline, outcome: Outcome) -> Baseline:
    """Return the baseline anchored at the session of ``outcome``.

    Raises ``UpdateRefusedError`` if that is none of its level.
    """
    session = _same(baseline.level, outcome)
    if session is None:
        raise UpdateRefusedError(
            f"{outcome.case.id}: the session of {outcome.time} is none of the stored level, so it "
            "cannot be its anchor; leave --anchor out, or accept a session of the level"
        )
    return replace(baseline, anchor=session)


def _measured(outcome: Outcome) -> tuple[Measurement, str]:
    """Return the measurement and the machine class."""
    if outcome.measurement is None or not outcome.measurement.runs or outcome.environment is None:
        raise UpdateRefusedError(f"{outcome.case.id}: nothing was measured, so nothing is stored")
    return outcome.measurement, outcome.environment.machine_class


def _held(baseline: Baseline, outcome: Outcome) -> Session | None:
    """Return the session if it is stored already: twice, it would look like less noise."""
    stored = [*baseline.sessions, *(one for old in baseline.history for one in old.sessions)]
    return _same(stored, outcome)


def _same(stored: Iterable[Session], outcome: Outcome) -> Session | None:
    """Return which of the ``stored`` sessions is that of ``outcome``; None if none is."""
    identity = session_of(outcome, reason="").identity
    return next((one for one in stored if one.identity == identity), None)
