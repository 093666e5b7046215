"""Confirms in pairs of runs what stored sessions left open: the second stage of a verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, DlperfError
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import Confirmation
from pytest_dlperf.core.verdict import GOOD, NEVER, Judgement, Verdict
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab import compare_arms
from pytest_dlperf.flow.ab_imports import is_source
from pytest_dlperf.flow.bench import ANCHOR, PAIRS
from pytest_dlperf.flow.environment_change import EnvironmentChange
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.flow.package_pairs import ByPackages, change_since, is_asked_for
from pytest_dlperf.flow.same_code import has_same_code, may_differ
from pytest_dlperf.judge.creep import case_of_pairs, rule_of_pairs
from pytest_dlperf.judge.tolerance import tolerance_of
from pytest_dlperf.judge.two_stages import (
    decided_by_pairs,
    judgement_without_pairs,
    other_sides,
    same_code_judgement,
)
from pytest_dlperf.judge.verdict import judge_pairs, plain_judgement, with_finding
from pytest_dlperf.launch.arms.git import missing_commit, top_of

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench

_IF_IT_FAILS: Final = (
    "link files that git ignores (ini dlperf_arm_link), or store a session of code that runs here"
)


@dataclass(frozen=True, kw_only=True)
class SecondStage:
    """What is to decide a case that stored sessions left open."""

    #: The stored session whose code is the other arm.
    session: Session
    #: Whether it is the anchor.
    anchor: bool
    #: The slowdown up to which the case passes, a share.
    tolerance: float
    #: What else than the code changed since.
    change: EnvironmentChange
    #: Whether the code is that of that session.
    same_code: bool = False
    #: Why no pair is possible; empty if one is.
    impossible: str = ""
    #: What decides where the code of the anchor cannot be measured; None if nothing does.
    instead: SecondStage | None = None
    #: Why the anchor's code, which would decide, cannot be measured; empty if nothing is in doubt.
    without_anchor: str = ""


def second_stage(
    case: Case, bench: Bench, measured: Measured, baseline: Baseline | None
) -> SecondStage | None:
    """Return what is to decide ``case``; None where stored sessions did, or alone judge."""
    measurement, judgement = measured.measurement, measured.judgement
    if bench.policy.confirm == NEVER or bench.arms is None:
        return None
    if measurement is None or baseline is None:
        return None
    sides = other_sides(case, measurement, judgement, baseline, bench.policy.rule)
    stages = [_stage(case, bench, measured, baseline, session) for session in sides]
    possible = [stage for stage in stages if not stage.impossible]
    if not possible:
        return stages[0] if stages else None
    chosen = replace(possible[0], instead=possible[1] if len(possible) > 1 else None)
    if stages[0].anchor and not chosen.anchor:
        return replace(chosen, without_anchor=stages[0].impossible)
    return chosen


def _stage(
    case: Case, bench: Bench, measured: Measured, baseline: Baseline, session: Session
) -> SecondStage:
    """Return the stage with the code of ``session``, or why it is impossible."""
    stage = SecondStage(
        session=session,
        anchor=session is not baseline.level[-1],
        tolerance=tolerance_of(case, baseline, bench.policy.rule),
        change=EnvironmentChange(),
    )
    assert measured.measurement is not None
    try:
        impossible = _impossible(case, bench, session, measured.facts)
        if impossible:
            return replace(stage, impossible=impossible)
        same = not measured.measurement.inject and has_same_code(
            measured.facts,
            session.commit,
            rootdir=bench.hosts.rootdir,
            baselines=bench.stored.store.root,
            but=bench.workdir,
            is_program=bool(case.command),
        )
        change = change_since(case, bench, session, bench.hosts.environment(case, measured.facts))
    except DlperfError as error:
        return replace(stage, impossible=str(error))
    return replace(stage, same_code=same, change=change)


def can_decide(case: Case, bench: Bench, baseline: Baseline | None) -> bool:
    """Return whether pairs with the code of the last stored session are possible.

    As far as that is known before a rank runs.
    """
    if bench.policy.confirm == NEVER or baseline is None or not baseline.level:
        return False
    if baseline.source.kind != "measured":
        return False
    try:
        return not _impossible(case, bench, baseline.level[-1], RunFacts())
    except DlperfError:
        return False


def _impossible(case: Case, bench: Bench, session: Session, facts: RunFacts) -> str:
    """Return why no pair with the code of ``session`` is possible; empty if one is."""
    if bench.hosts.node_part(case) is not None:
        return "nodes that are started by hand launch equally often, and would not know of pairs"
    if "imports" in facts and (outside := facts["imports"]["outside"]):
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        return (
            f"ranks import {outside[0]}{more}, which this repository does not have, so that no "
            "commit of it says which code that is; install it with its version, or import it from "
            "here"
        )
    if program := _program_outside(case, bench.hosts.rootdir):
        return (
            f"its command runs {program}, which this repository does not have, so that no commit "
            "of it says which code that is"
        )
    return _without_tree(session.commit, bench.hosts.rootdir, dirty=session.may_be_modified)


def _program_outside(case: Case, rootdir: Path) -> str:
    """Return the first source that the command of ``case`` names from outside the repository."""
    if not case.command or not (top := top_of(rootdir)).is_dir():
        return ""
    for word in case.command:
        path = (rootdir / word).resolve()
        if is_source(word) and path.is_file() and not path.is_relative_to(top):
            return word
    return ""


def _without_tree(commit: str, rootdir: Path, *, dirty: bool) -> str:
    """Return why no tree has the code of a stored session; empty if one can be made."""
    if not commit:
        return "the stored session has no git commit; commit the code, and store a session of it"
    if dirty:
        return (
            "the stored session is of modified files, which no commit has; commit them, and store "
            "a session of that"
        )
    missing = missing_commit(rootdir, commit)
    if not missing:
        return ""
    return f"{missing}; it is that of the stored session, --update-baselines stores a new one"


def pairs_may_follow(commit: str, *, dirty: bool, rootdir: Path, baselines: Path) -> bool:
    """Return whether pairs with the code of a stored session can be run, and would show anything.

    ``commit`` and ``dirty`` are the session's; ``baselines`` is a folder that holds no code.
    Before anything ran: which files the ranks import is not known.
    """
    try:
        if _without_tree(commit, rootdir, dirty=dirty):
            return False
        return may_differ(commit, rootdir=rootdir, baselines=baselines)
    except DlperfError:
        return False  # no pair is possible, as the case will say


def confirmed(
    case: Case, bench: Bench, stored: Measured, stage: SecondStage, *, workload_folder: str
) -> Measured:
    """Return ``stored`` with the verdict of both stages.

    Where no pair can be run, stored sessions judge alone, and the sentence says why.
    """
    began_s = time.monotonic()
    session, judgement = stage.session, stored.judgement
    confirmation = Confirmation(
        stored=judgement,
        commit=session.commit,
        anchor=stage.anchor,
        tolerance=stage.tolerance,
        environment=stage.change.words,
        same_code=stage.same_code,
    )
    if stage.impossible:
        return _alone(stored, confirmation, stage.impossible)
    rule = replace(bench.policy.rule, tolerance=stage.tolerance)
    bench = replace(bench, policy=replace(bench.policy, rule=rule))
    change, explanation = stage.change, stored.explanation
    code = plain_judgement(Verdict.PASSED, "no file that ranks import differs")
    if not stage.same_code:
        try:
            paired = _paired(case, bench, stored, stage, workload_folder)
        except BudgetSpentError:
            why = f"the budget of {bench.policy.budget_text} has no time for a pair"
            return _alone(stored, replace(confirmation, is_cut_short=True), why)
        except DlperfError as error:
            if stage.instead is None:
                why = f"{error.first_line()}; {_IF_IT_FAILS}"
                return _alone(stored, confirmation, why, details=error.remarks.splitlines())
            instead = replace(stage.instead, without_anchor=error.first_line())
            return confirmed(case, bench, stored, instead, workload_folder=workload_folder)
        assert paired.against is not None
        same = paired.against.unaffected
        code = (
            plain_judgement(Verdict.PASSED, paired.judgement.reason) if same else paired.judgement
        )
        # What ranks with the code of before have as well is not the code's doing
        change = change.without_that_of(session, paired.against.software)
        explanation = paired.explanation
        confirmation = replace(
            confirmation,
            pairs=paired.judgement,
            against=paired.against,
            measurement=paired.measurement,
            is_cut_short=paired.is_cut_short,
            same_code=same,
            environment=change.words,
        )
    against = short_commit(session.commit)
    if stage.anchor:
        against = f"the anchor {against}"
    if confirmation.same_code and not change.words and not change.unknown:
        decision = same_code_judgement(judgement, against=against)
    elif code.verdict in GOOD and is_asked_for(bench, judgement, change):
        by_packages = ByPackages(
            case=case,
            bench=bench,
            session=session,
            change=change,
            workload_folder=workload_folder,
            pair_s=_pair_s(stored),
        )
        decision, packages = by_packages.decide(judgement, code)
        confirmation = replace(confirmation, packages=packages)
    else:
        decision = decided_by_pairs(
            judgement,
            code,
            against=against,
            environment=change.words,
            unknown=change.unknown,
            measured_by=change.measured_by,
        )
    decision = _with_anchor(decision, stage)
    confirmation = replace(confirmation, elapsed_s=time.monotonic() - began_s)
    return replace(stored, judgement=decision, confirmation=confirmation, explanation=explanation)


def _with_anchor(decision: Judgement, stage: SecondStage) -> Judgement:
    """Add to the verdict of both stages what is to be known of the anchor, if anything is."""
    if stage.anchor and decision.verdict in GOOD:
        return with_finding(decision, "below-anchor")
    if stage.without_anchor:
        return with_finding(decision, "no-pairs-with-anchor", text=stage.without_anchor)
    return decision


def _has_time(bench: Bench, stored: Measured) -> bool:
    """Return whether the budget has time for a pair."""
    budget = bench.policy.budget
    return budget is None or budget.allows(_pair_s(stored))


def _pair_s(stored: Measured) -> float:
    """Return how long a pair may take, by the runs of the first stage."""
    assert stored.measurement is not None
    return 2 * max(run.elapsed_s for run in stored.measurement.runs)


def _paired(
    case: Case, bench: Bench, stored: Measured, stage: SecondStage, workload_folder: str
) -> Measured:
    """Return what pairs show; raise ``BudgetSpentError`` where there is no time for one.

    Those with the anchor go on until they certify half of the tolerance. What that leaves open is
    judged by the whole: they showed no slowdown for certain.
    """
    if not _has_time(bench, stored):
        raise BudgetSpentError(case.id)
    bench.watcher.confirms(case, short_commit(stage.session.commit))
    folder = ANCHOR if stage.anchor else PAIRS
    pairs = bench.in_pairs(RefArm(ref=stage.session.commit), folder)
    if not stage.anchor:
        return compare_arms(case, pairs, workload_folder=workload_folder)
    case = case_of_pairs(case)
    policy = replace(pairs.policy, rule=rule_of_pairs(pairs.policy.rule))
    asked = replace(pairs, policy=policy)
    paired = compare_arms(case, asked, workload_folder=workload_folder)
    if paired.judgement.verdict is not Verdict.INCONCLUSIVE:
        return paired
    assert paired.measurement is not None
    assert paired.against is not None
    assert paired.against.measurement is not None
    judgement = judge_pairs(
        paired.case or case,
        paired.measurement,
        paired.against.measurement,
        pairs.policy.rule,
        against=paired.against.name,
    )
    return replace(paired, judgement=judgement)


def _alone(
    stored: Measured, confirmation: Confirmation, why: str, *, details: Sequence[str] = ()
) -> Measured:
    judgement = judgement_without_pairs(stored.judgement, why, details=details)
    if confirmation.anchor:
        judgement = with_finding(judgement, "below-anchor")
    return replace(
        stored,
        judgement=judgement,
        confirmation=replace(confirmation, impossible=why),
    )
