"""What a session measured of a case before it was ended: runs that came to no verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Confirmation, Outcome, PackagePairs
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.flow.bench import ANCHOR, PACKAGES_OF_BEFORE, PAIRS
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.judge.budget import marked_cut_short
from pytest_dlperf.judge.verdict import judge, judge_pairs, plain_judgement
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench


def unfinished(case: Case, bench: Bench, why: str, *, workload_folder: str) -> Outcome | None:
    """Return the outcome of a case whose session was ended, for ``why``, after some of its runs.

    The change that they show, or pairs where there are any, is seen, and not judged. A run that
    failed is the error of the case. Raises ``DlperfError`` where the baseline cannot be read, and
    ``ValueError`` or ``KeyError`` where the runs cannot. None where the session has no run of it,
    or no pair where it measures pairs alone.
    """
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if failure := bench.runs.failure(case):
        return Outcome(
            case=case,
            judgement=plain_judgement(Verdict.ERROR, failure),
            environment=bench.hosts.environment(case, {}),
            time=now,
        )
    if bench.side_by_side is not None:
        pairs = bench.runs.pairs(case)
        return None if pairs is None else _pairs_outcome(pairs, bench.policy.rule, why, now)
    runs = bench.runs.load(case)
    if not runs:
        return None
    runner = Runner(bench=bench, lease=None, workload_folder=workload_folder)
    measurement = marked_cut_short(runner.measurement(case, runs, []), why)
    baseline = bench.baseline(case)
    judgement = judge(case, measurement, baseline, bench.policy.rule)
    outcome = Outcome(
        case=case,
        judgement=_not_judged([_count(measurement, "run")], why, judgement),
        measurement=measurement,
        environment=bench.hosts.environment(case, runs[0].facts),
        baseline_sessions=baseline.sessions if baseline else (),
        time=now,
        folder=str(bench.folder / case.id),
    )
    return _with_second_stage(outcome, judgement, bench, why)


def _pairs_outcome(pairs: Outcome, rule: Rule, why: str, now: str) -> Outcome:
    """Return the outcome of a case that is measured in pairs alone."""
    assert pairs.measurement is not None
    return replace(
        pairs,
        judgement=_not_judged([_words_of(pairs)], why, _judged(pairs, rule)),
        measurement=marked_cut_short(pairs.measurement, why),
        time=now,
    )


def _with_second_stage(outcome: Outcome, stored: Judgement, bench: Bench, why: str) -> Outcome:
    """Return ``outcome`` with the pairs that were to decide it, if there are any.

    ``stored`` is the judgement by stored sessions.
    """
    by_folder = {
        folder: pairs
        for folder in (PAIRS, ANCHOR, PACKAGES_OF_BEFORE)
        if (pairs := SessionRuns(bench.folder / folder).pairs(outcome.case)) is not None
    }
    code = by_folder.get(PAIRS) or by_folder.get(ANCHOR)
    packages = by_folder.get(PACKAGES_OF_BEFORE)
    last_stored = next(reversed(outcome.baseline_sessions), None)
    confirmation = Confirmation(
        stored=stored,
        commit=last_stored.commit if last_stored else "",
        is_cut_short=True,
        # Else pairs with that code come before those with its packages
        same_code=code is None,
    )
    counts = [_count(outcome.measurement, "run")]
    last = stored
    for pairs in filter(None, (code, packages)):
        counts.append(_words_of(pairs))
        last = _judged(pairs, bench.policy.rule)
        shown = _not_judged([_words_of(pairs)], why, last)
        elapsed_s = confirmation.elapsed_s + _elapsed_s(pairs)
        if pairs is packages:
            by_packages = PackagePairs(
                pairs=shown, against=pairs.against, measurement=pairs.measurement
            )
            confirmation = replace(confirmation, packages=by_packages, elapsed_s=elapsed_s)
        else:
            assert pairs.against is not None
            confirmation = replace(
                confirmation,
                commit=pairs.against.commit,
                anchor=PAIRS not in by_folder,
                pairs=shown,
                against=pairs.against,
                measurement=pairs.measurement,
                elapsed_s=elapsed_s,
            )
    if not by_folder:
        return outcome
    judgement = _not_judged(counts, why, last)
    return replace(outcome, judgement=judgement, confirmation=confirmation)


def _judged(pairs: Outcome, rule: Rule) -> Judgement:
    against = pairs.against
    assert pairs.measurement is not None
    assert against is not None
    assert against.measurement is not None
    return judge_pairs(
        pairs.case, pairs.measurement, against.measurement, rule, against=against.name
    )


def _not_judged(counts: list[str], why: str, judgement: Judgement) -> Judgement:
    """Return that so much was measured, with the change that ``judgement`` has, as refused."""
    *first, last = counts
    measured = f"{', '.join(first)} and {last}" if first else last
    be = "was" if len(counts) == 1 and last.startswith("1 ") else "were"
    return plain_judgement(
        Verdict.NOT_RUN,
        f"{measured} {be} measured, and not judged: {why}",
        throughput=judgement.throughput.as_refused(Verdict.NOT_RUN),
    )


def _words_of(pairs: Outcome) -> str:
    assert pairs.against is not None
    return f"{_count(pairs.measurement, 'pair')} with {pairs.against.name}"


def _count(measurement: Measurement | None, noun: str) -> str:
    assert measurement is not None
    count = len(measurement.runs) + len(measurement.disturbed_runs)
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _elapsed_s(pairs: Outcome) -> float:
    """Return the seconds that the launches of both sides took."""
    other = pairs.against.measurement if pairs.against else None
    measurements = filter(None, (pairs.measurement, other))
    return sum(run.elapsed_s for each in measurements for run in each.runs)
