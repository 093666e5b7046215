"""``--dlperf-resume``: measurements of a session that was interrupted, in place of new ones.

They are judged by the rule and the baseline of now. A case without a verdict goes on from its
runs, where the folder of that session still has them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cases.possible import framework_version
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import BaselineError, DlperfError, UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.measurement import CUT_SHORT, Environment, short_commit
from pytest_dlperf.core.outcome import Outcome, case_as_written
from pytest_dlperf.core.run import MeasuredRun, Problem
from pytest_dlperf.core.secret_texts import secrets_of
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.explain import explained
from pytest_dlperf.flow.pipeline import judge_again
from pytest_dlperf.judge.tolerance import tolerance_of
from pytest_dlperf.judge.verdict import NOT_STORED, plain_judgement, without_findings
from pytest_dlperf.launch.arms.checkout import Checkout
from pytest_dlperf.report import json_
from pytest_dlperf.session.case_record import CaseRecords
from pytest_dlperf.session.folder import changed_for_training
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.session.resources import Resources

#: Software that is known before a case runs, beside the framework's version.
_SOFTWARE: Final = ("driver", "image", "kernel")


@dataclass(frozen=True, kw_only=True)
class Now:
    """What this session would measure a case with."""

    checkout: Checkout
    environment: Environment
    #: Of the framework that is installed here; None if it is not known before a run.
    framework_version: str | None
    inject: float
    #: Folder of real data; None for synthetic data.
    data: str | None
    share_host: bool
    threads_per_rank: int
    #: Name of the host on which ranks run; None where they name another one than this.
    node: str | None
    #: The slowdown up to which the case passes, a share; None where its baseline cannot be read.
    tolerance: float | None


def now_of(case: Case, resources: Resources) -> Now:
    """Return what a session would measure ``case`` with."""
    bench, checkout = resources.bench, resources.checkout
    hosts, policy = bench.hosts, bench.policy
    is_here = not hosts.place.foreign and case.framework in FRAMEWORKS
    target = bench.target(case, "")
    environment = hosts.environment(case, {})
    try:
        tolerance = tolerance_of(case, bench.baseline(case), policy.rule)
    except BaselineError:
        tolerance = None  # the verdict says why
    return Now(
        checkout=checkout,
        environment=environment,
        framework_version=framework_version(case.framework) if is_here else None,
        inject=policy.injected(case),
        data=policy.data,
        share_host=hosts.share_host,
        threads_per_rank=target.threads_per_rank,
        node=None if hosts.place.foreign or target.hosts else environment.node,
        tolerance=tolerance,
    )


class Resumed:
    """What is taken from the results file of a session that was interrupted."""

    def __init__(self, path: Path, records: CaseRecords) -> None:
        """Read the file into ``records``; raise ``UsageError`` if it cannot be read."""
        self.path, self._records = path, records
        try:
            outcomes = json_.read(path)
        except UsageError as error:
            raise UsageError(f"--dlperf-resume: {error}") from error
        for outcome in outcomes:
            if outcome.against is not None:
                raise UsageError(
                    f"--dlperf-resume={path}: {outcome.case.id} was measured against "
                    f"{outcome.against.name}, in pairs, and what that names may be another now; "
                    "leave --dlperf-resume out"
                )
            record = records[outcome.case.id]
            if record.before is not None:
                raise UsageError(
                    f"--dlperf-resume={path}: it holds {outcome.case.id} twice, so that it is not "
                    "the file of one session"
                )
            if invalid := _invalid(outcome):
                raise UsageError(f"--dlperf-resume={path}: {outcome.case.id}: {invalid}")
            record.before = outcome

    def check(self, selected: Sequence[Case]) -> None:
        """Raise ``UsageError`` if the file is of other cases than those that are selected."""
        count = len(self._records.before)
        if count and selected and all(self._records[case.id].before is None for case in selected):
            raise UsageError(
                f"--dlperf-resume={self.path}: none of its {count} cases is "
                "selected here, so that it is the file of another project, precision or machine; "
                "name the file of the session that was interrupted, or leave the option out"
            )

    def outcome(self, case: Case) -> Outcome | None:
        """Return the final outcome of ``case``; None if it is to be measured."""
        before = self._records[case.id].before
        return before if before is not None and _is_final(before) else None

    def unfinished(self, case: Case) -> Outcome | None:
        """Return the outcome of ``case`` with runs and no final verdict; None without one."""
        before = self._records[case.id].before
        is_open = before is not None and before.measurement is not None and not _is_final(before)
        return before if is_open else None

    def differs(self, case: Case, now: Callable[[], Now]) -> str:
        """Return why the final outcome of ``case`` is not taken; empty if it may be."""
        before = self.outcome(case)
        if before is None:
            return ""
        differ = "; ".join(differences(case, before, now()))
        return differ and f"measured again, and not taken from {self.path}: {differ}"

    def go_on(self, case: Case, runs: SessionRuns, now: Callable[[], Now]) -> str:
        """Add to ``runs`` those of a case that had no verdict yet.

        Returns why they are not added: something differs, or their folder is gone. Empty if they
        are, or there are none.
        """
        unfinished = self.unfinished(case)
        if unfinished is None:
            return ""
        folder, parent = Path(unfinished.folder).parent, case.parent()
        ended = SessionRuns(folder)
        not_used = f"its runs in {self.path} are not used"
        try:
            before = ended.load(case)
            parent_runs = ended.load(parent) if parent else []
            if not before:
                return f"{not_used}: {unfinished.folder} does not have them"
            differ = "; ".join(_differences_of_runs(case, unfinished, folder, now()))
        except (OSError, ValueError, KeyError) as error:  # or of another version of this package
            return f"{not_used}: they cannot be read: {error}"
        if differ:
            return f"{not_used}: {differ}"
        what = "1 of its runs is" if len(before) == 1 else f"{len(before)} of its runs are"
        note = f"{what} of the session that ended at {unfinished.time}"
        first, problem = before[0].summary, Problem(code="runs-taken", message=note)
        noted = replace(first, problems=(*first.problems, problem))
        _add(runs, case, [before[0]._replace(summary=noted), *before[1:]])
        if parent:
            # The speedup is over runs of the same hour
            _add(runs, parent, parent_runs)
        return ""

    def taken(self, outcome: Outcome, node_id: str) -> Outcome:
        """Return ``outcome`` as one of this session."""
        return replace(
            outcome,
            # Tried again by this session, where it stores
            judgement=without_findings(outcome.judgement, {NOT_STORED}),
            node_id=node_id,
            command="",
            failed=False,
            interrupted=False,
            taken_from=str(self.path),
        )

    def outcome_now(self, case: Case, node_id: str, resources: Resources) -> Outcome | None:
        """Return the final outcome of ``case`` by the rule and the baseline of this session.

        None to measure it. ``node_id`` is that of its test. A baseline is not stored.
        """
        before = self.outcome(case)
        if before is None or self.differs(case, lambda: now_of(case, resources)):
            return None
        outcome = self.taken(before, node_id)
        if outcome.update:
            return outcome
        if is_judged(outcome):
            outcome = judged_now(outcome, resources.bench_of(case))
        return replace(outcome, failed=resources.settings.fails(outcome))


def _invalid(outcome: Outcome) -> str:
    """Return what no session writes, and a verdict cannot be without; empty if nothing is."""
    if outcome.measurement is not None and not outcome.measurement.runs:
        return "its measurement has no runs"
    return ""


def _add(runs: SessionRuns, case: Case, before: Sequence[MeasuredRun]) -> None:
    """Add runs of an ended session, unless another test of this one has measured ``case``."""
    with runs.exclusive(case):
        if not runs.load(case):
            for run in before:
                runs.append(case, run)


def _is_final(outcome: Outcome) -> bool:
    """Whether nothing was left open: what was measured whole, and errors, which stay red."""
    measurement = outcome.measurement
    second = outcome.confirmation
    if outcome.share_done or (second is not None and second.is_cut_short):
        return False
    if measurement is None:
        # Time that was up leaves a case without a run; a missing framework is looked for again
        return outcome.judgement.verdict is Verdict.ERROR and not outcome.interrupted
    return not outcome.interrupted and all(
        problem.code != CUT_SHORT for problem in measurement.problems
    )


def is_judged(outcome: Outcome) -> bool:
    """Whether the verdict of ``outcome`` is one on its measurement; an error stays red."""
    measured = outcome.measurement is not None
    return measured and outcome.judgement.verdict not in {Verdict.ERROR, Verdict.NOT_RUN}


def judged_now(outcome: Outcome, bench: Bench) -> Outcome:
    """Return ``outcome`` with the verdict by the rule and the stored baseline of ``bench``."""
    case = outcome.case
    try:
        baseline = bench.baseline(case)
        judgement = judge_again(outcome, baseline, bench.policy.rule)
        judgement = bench.stored.with_folder(judgement)
    except DlperfError as error:
        return replace(outcome, judgement=plain_judgement(Verdict.ERROR, str(error)))
    if outcome.explanation is not None:
        judgement = explained(judgement, outcome.explanation)
    sessions = () if baseline is None else baseline.sessions
    return replace(outcome, judgement=judgement, baseline_sessions=sessions)


def differences(case: Case, outcome: Outcome, now: Now) -> Iterator[str]:
    """Yield what is not as it was when ``outcome`` was measured, in words."""
    was: Mapping[str, object] = encode(outcome.case)
    secrets = secrets_of(os.environ, case.command_line())
    for name, value in case_as_written(case, secrets).items():
        if was[name] != value:
            yield f"{name} of the case: {value}, was {was[name]}"
    if outcome.commit != now.checkout.commit:
        yield f"commit: {_commit(now.checkout.commit)}, was {_commit(outcome.commit)}"
    if outcome.dirty or now.checkout.dirty:
        yield "tracked files are or were modified, so that the commit does not say what is run"
    if problem := outcome.checkout_problem or now.checkout.problem:
        yield f"git does not say the commit, or whether tracked files are modified ({problem})"
    yield from _machine_differences(case, outcome, now)
    yield from _measurement_differences(outcome, now)
    certified = None if outcome.confirmation is None else outcome.confirmation.tolerance
    if certified is not None and now.tolerance is not None and certified != now.tolerance:
        # Pairs end where they certify it
        yield f"tolerance of its pairs: {now.tolerance:.1%}, was {certified:.1%}"


def _differences_of_runs(case: Case, outcome: Outcome, folder: Path, now: Now) -> Iterator[str]:
    """Yield what keeps runs of now from joining those of ``outcome``; ``folder`` is its session's.

    They would be one measurement, with the conditions and the node of the first run.
    """
    yield from differences(case, outcome, now)
    if not now.checkout.commit:
        yield "without a git commit, nothing shows that the code is the same"
    if outcome.measurement is not None:
        threads = outcome.measurement.conditions.threads_per_rank
        if threads != now.threads_per_rank:
            yield f"threads per rank: {now.threads_per_rank}, were {threads}"
    if names := changed_for_training(folder, data=now.data):
        yield f"{names} changed"
    if (was := outcome.environment) is None:
        return
    if now.node is not None and was.node != now.node:
        yield f"node: {now.node}, was {was.node}"
    for name, kind in (("cores visible", "machine"), ("prefix", "software")):
        before, after = getattr(was, kind).get(name), getattr(now.environment, kind).get(name)
        if before != after:
            yield f"{name}: {after}, was {before}"


def _machine_differences(case: Case, outcome: Outcome, now: Now) -> Iterator[str]:
    was = outcome.environment
    if was is None:
        yield "its machine was not recorded"
        return
    for name in ("machine_class", "hardware"):
        before, after = getattr(was, name), getattr(now.environment, name)
        # A rank names the model of its GPU; before it runs, the limit on power is known
        is_unknown = name == "hardware" and case.layout.device == "gpu"
        if is_unknown and before.partition("-at-")[2] == after.partition("-at-")[2]:
            continue
        if before != after:
            yield f"{name.replace('_', ' ')}: {after}, was {before}"
    software = dict(now.environment.software)
    if now.framework_version is not None:
        software[case.framework] = now.framework_version
    for name in (*_SOFTWARE, case.framework):
        before, after = was.software.get(name), software.get(name)
        # Not every side knows everything before a case runs, nor after an error
        if before is None or after is None or before == after:
            continue
        # A rank names the build, as in 2.14.1+cu130, which the installed metadata may not have
        if name == case.framework and before.partition("+")[0] == after:
            continue
        yield f"{name}: {after}, was {before}"


def _measurement_differences(outcome: Outcome, now: Now) -> Iterator[str]:
    measurement = outcome.measurement
    if measurement is None:
        return
    conditions = measurement.conditions
    if measurement.inject != now.inject:
        yield f"--dlperf-inject: {now.inject:.3g}, was {measurement.inject:.3g}"
    is_real = now.data is not None
    if conditions.data != "own" and (conditions.data == "real") != is_real:
        yield f"data: {'real' if is_real else 'synthetic'}, was {conditions.data}"
    if conditions.host_sharing != now.share_host:
        yield f"--dlperf-share-host: {now.share_host}, was {conditions.host_sharing}"


def _commit(commit: str) -> str:
    return short_commit(commit) or "none"
