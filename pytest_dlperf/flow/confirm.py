"""Confirms in pairs of runs what stored sessions left open: the second stage of a verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, DlperfError
from pytest_dlperf.core.measurement import Environment, short_commit
from pytest_dlperf.core.outcome import Confirmation
from pytest_dlperf.core.packages import PACKAGES
from pytest_dlperf.core.verdict import NEVER, Judgement, Verdict
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab import compare_arms
from pytest_dlperf.flow.bench import SideBySide
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.flow.same_code import has_same_code
from pytest_dlperf.judge.two_stages import (
    decided_by_pairs,
    needs_pairs,
    screening_rule,
    with_same_code,
    without_pairs,
)
from pytest_dlperf.launch.arms.git import missing_commit
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench

#: Folder of the pairs' runs in that of the session.
_FOLDER = "pairs"


def screening(bench: Bench, case: Case, baseline: Baseline | None) -> Bench:
    """Return ``bench`` with the rule that stored sessions screen ``case`` by.

    Where they alone judge, its rule stays.
    """
    if bench.policy.confirm == NEVER:
        return bench
    rule = screening_rule(case, baseline, bench.policy.rule)
    return replace(bench, policy=replace(bench.policy, rule=rule))


@dataclass(frozen=True, kw_only=True)
class SecondStage:
    """What is to decide a case that stored sessions left open."""

    #: The stored session whose code is the other arm.
    session: Session
    #: Whether it is the anchor.
    anchor: bool
    #: What else than the code changed since, in words.
    environment: tuple[str, ...]
    #: Whether code and packages are those of that session.
    same_code: bool = False
    #: Why no pair is possible; empty if one is.
    impossible: str = ""


def second_stage(
    case: Case, bench: Bench, measured: Measured, baseline: Baseline | None
) -> SecondStage | None:
    """Return what is to decide ``case``; None where stored sessions did, or alone judge."""
    measurement, judgement = measured.measurement, measured.judgement
    if bench.policy.confirm == NEVER or measurement is None or baseline is None:
        return None
    if not needs_pairs(case, measurement, judgement, baseline, bench.policy.rule):
        return None
    drifted = judgement.metrics.get("anchor")
    anchor = drifted is not None and drifted.verdict is Verdict.REGRESSED
    session = baseline.anchor if anchor and baseline.anchor else baseline.level[-1]
    environment = bench.hosts.environment(case, measured.facts)
    stage = SecondStage(
        session=session, anchor=anchor, environment=tuple(_changes(session, environment))
    )
    try:
        impossible = _impossible(case, bench, session, measured.facts)
        if impossible:
            return replace(stage, impossible=impossible)
        same = not measurement.inject and has_same_code(
            measured.facts,
            session.commit,
            rootdir=bench.hosts.rootdir,
            baselines=bench.stored.store.root,
            but=bench.workdir,
        )
    except DlperfError as error:
        return replace(stage, impossible=str(error))
    return replace(stage, same_code=same)


def _impossible(case: Case, bench: Bench, session: Session, facts: RunFacts) -> str:
    """Return why no pair with the code of ``session`` is possible; empty if one is."""
    if bench.arms is None or bench.hosts.node_part(case) is not None:
        return "nodes that are started by hand launch equally often, and would not know of pairs"
    if not session.commit:
        return "the stored session has no git commit; commit the code, and store a session of it"
    if session.dirty:
        return (
            "the stored session is of modified files, which no commit has; commit them, and store "
            "a session of that"
        )
    if "imports" in facts and (outside := facts["imports"]["outside"]):
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        return (
            f"ranks import {outside[0]}{more}, which this repository does not have, so that no "
            "commit of it says which code that is; install it with its version, or import it from "
            "here"
        )
    missing = missing_commit(bench.hosts.rootdir, session.commit)
    if not missing:
        return ""
    return f"{missing}; it is that of the stored session, --update-baselines stores a new one"


def _changes(session: Session, environment: Environment) -> Iterator[str]:
    """Yield what differs between the environment of ``session`` and that of now, in words.

    What one of the two does not know is no difference. Of packages that differ, the framework's
    own is named beside how many do.
    """
    for was, now in (
        (session.software, environment.software),
        (session.machine, environment.machine),
    ):
        for name in sorted(was.keys() & now.keys()):
            if was[name] != now[name]:
                yield (
                    "installed packages"
                    if name == PACKAGES
                    else f"{name} {was[name]} became {now[name]}"
                )


def confirmed(
    case: Case, bench: Bench, stored: Measured, stage: SecondStage, *, workload_folder: str
) -> Measured:
    """Return ``stored`` with the verdict of both stages.

    Where no pair can be run, stored sessions judge alone, and the sentence says why.
    """
    began_s = time.monotonic()
    judgement, commit = stored.judgement, stage.session.commit
    against = short_commit(commit)
    confirmation = Confirmation(
        stored=judgement,
        commit=commit,
        anchor=stage.anchor,
        environment=stage.environment,
        impossible=stage.impossible,
    )
    if stage.impossible:
        return _alone(stored, confirmation, stage.impossible)
    if stage.same_code and not stage.environment:
        same = with_same_code(judgement, against=against)
        confirmation = replace(confirmation, same_code=True)
        return replace(stored, judgement=same, confirmation=confirmation)
    if stage.same_code:
        pairs = Judgement(verdict=Verdict.PASSED, reason="no file that ranks import differs")
        both = decided_by_pairs(judgement, pairs, against=against, environment=stage.environment)
        confirmation = replace(confirmation, same_code=True)
        return replace(stored, judgement=both, confirmation=confirmation)
    try:
        paired = compare_arms(
            case, _bench_of_pairs(bench, commit), workload_folder=workload_folder
        )
    except BudgetSpentError:
        return _alone(stored, confirmation, f"the budget of {bench.policy.budget_text} was spent")
    except DlperfError as error:
        return _alone(stored, confirmation, f"{error}")
    assert paired.against is not None
    elapsed_s = time.monotonic() - began_s
    confirmation = replace(
        confirmation,
        pairs=paired.judgement,
        against=paired.against,
        measurement=paired.measurement,
        same_code=paired.against.unaffected,
        elapsed_s=elapsed_s,
    )
    pairs = paired.judgement
    if paired.against.unaffected:
        pairs = replace(pairs, verdict=Verdict.PASSED)
        if not stage.environment:
            same = with_same_code(judgement, against=against)
            return replace(stored, judgement=same, confirmation=confirmation)
    both = decided_by_pairs(judgement, pairs, against=against, environment=stage.environment)
    return replace(
        stored, judgement=both, confirmation=confirmation, explanation=paired.explanation
    )


def _alone(stored: Measured, confirmation: Confirmation, why: str) -> Measured:
    return replace(
        stored,
        judgement=without_pairs(stored.judgement, why),
        confirmation=replace(confirmation, impossible=why),
    )


def _bench_of_pairs(bench: Bench, commit: str) -> Bench:
    """Return the bench of pairs with the tree of ``commit``, whose runs are kept apart."""
    assert bench.arms is not None
    folder = bench.folder / _FOLDER
    return replace(
        bench,
        hosts=replace(bench.hosts, folder=folder),
        runs=SessionRuns(folder),
        side_by_side=SideBySide(against=RefArm(ref=commit), arms=bench.arms),
    )
