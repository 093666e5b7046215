"""Writes the baseline of an outcome and its profile; notes run times and the last certificate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError, UpdateRefusedError
from pytest_dlperf.core.finding import Weight
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.cost import cost_to_store
from pytest_dlperf.flow.explain import ALWAYS, PROFILE
from pytest_dlperf.flow.pipeline import judge_again
from pytest_dlperf.judge.verdict import NOT_STORED, with_finding
from pytest_dlperf.session.exits import warn
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.baseline import cost_file, update
from pytest_dlperf.store.history import notes


def note(workdir: Path, outcome: Outcome, parent_runs: Sequence[RunSummary]) -> None:
    """Keep the run times of ``outcome`` and its one-device parent for later estimates.

    Warns where that cannot be written.
    """
    measurement = outcome.measurement
    if measurement is None or measurement.inject:
        return
    in_pair = outcome.against is not None
    taken: list[tuple[Case | None, Sequence[RunSummary], bool]] = [
        (outcome.case, measurement.runs, in_pair)
    ]
    if not in_pair:  # an A/B has pairs of its parent as well, which note themselves
        taken.append((outcome.case.parent(), parent_runs, False))
    if outcome.confirmation is not None and outcome.confirmation.measurement is not None:
        taken.append((outcome.case, outcome.confirmation.measurement.runs, True))
    try:
        if outcome.environment is not None:
            machine_class = outcome.environment.machine_class
            for case, runs, paired in taken:
                took = [run.elapsed_s for run in runs if run.elapsed_s > 0]
                if case is not None and took:
                    seconds = statistics.median(took)
                    notes.note_run_time(workdir, case, machine_class, seconds, in_pair=paired)
        if outcome.judgement.verdict in GOOD:
            notes.note_certificate(workdir, outcome.case.id, outcome.time)
    except DlperfError as error:
        warn(error)


def store_baseline(outcome: Outcome, bench: Bench, settings: Settings, *, fails: bool) -> Outcome:
    """Write the baseline of ``outcome``, or say in its judgement why it was refused.

    ``fails`` is whether its test fails without an update.
    """
    if bench.traces:
        return _store_cost(outcome, bench, settings, fails=fails)
    judgement, store = outcome.judgement, bench.stored.store
    try:
        rule = bench.policy.rule
        change = update.write(
            store,
            outcome,
            reason=settings.reason,
            judge_again=lambda stored, baseline: judge_again(stored, baseline, rule),
            observe=settings.observe,
        )
    except DlperfError as error:
        judgement = with_finding(judgement, NOT_STORED, text=str(error))
        is_refusal = isinstance(error, UpdateRefusedError)
        fails = fails or not (settings.observe and is_refusal)
        return replace(outcome, judgement=judgement, failed=fails)
    _keep_profile(outcome, bench, change.what)
    # All else was accepted with a reason, set aside, or is the first session
    fails = fails and judgement.verdict in GOOD
    is_first = judgement.verdict is Verdict.NO_BASELINE
    weight = Weight.STORED if is_first else Weight.NOTE
    judgement = with_finding(judgement, "stored", weight, text=change.text)
    return replace(outcome, judgement=judgement, update=change.what, failed=fails)


#: Verdicts whose cost is stored without a reason: git shows what becomes of the file.
_STORED: Final = GOOD | {Verdict.NO_BASELINE, Verdict.INCOMPARABLE}


def _store_cost(outcome: Outcome, bench: Bench, settings: Settings, *, fails: bool) -> Outcome:
    """Write the cost of ``outcome``, or say why not; a higher one needs a reason."""
    case, judgement = outcome.case, outcome.judgement
    refused = ""
    if outcome.cost is None:
        refused = f"the verdict is {judgement.verdict}, and there is no cost"
    elif judgement.verdict not in _STORED and not settings.reason:
        refused = "it is higher; if it is to be the baseline, say why with --dlperf-reason=TEXT"
    root = bench.stored.store.root
    try:
        if refused:
            raise UpdateRefusedError(refused, subject=case.id)
        stored = cost_to_store(case, outcome.folder, settings.reason)
        update_made = cost_file.write(root, case.suite, case.id, stored)
    except DlperfError as error:
        judgement = with_finding(judgement, NOT_STORED, text=str(error))
        return replace(outcome, judgement=judgement, failed=fails or not refused)
    path = cost_file.path_of(root, case.suite, case.id)
    words = f"its cost was stored in {path}" if update_made else f"{path} has this cost already"
    is_first = judgement.verdict is Verdict.NO_BASELINE
    judgement = with_finding(
        judgement, "stored", Weight.STORED if is_first else Weight.NOTE, text=words
    )
    return replace(outcome, judgement=judgement, update=update_made, failed=False)


def _keep_profile(outcome: Outcome, bench: Bench, what: str) -> None:
    """Store the profile of ``outcome`` with its baseline; remove one of another level.

    Warns where that cannot be done: the baseline is stored.
    """
    file = Path(outcome.folder) / PROFILE
    environment, explanation = outcome.environment, outcome.explanation
    is_new = explanation is not None and bool(explanation.parts) and file.exists()
    if environment is None or not (is_new or what == "replaced"):
        return
    case = outcome.case
    try:
        content = file.read_bytes() if is_new and bench.policy.explain == ALWAYS else None
        bench.stored.store.keep_profiles(environment.machine_class, case.suite, case.id, content)
    except (DlperfError, OSError) as error:
        warn(f"{case.id}: its profile was not stored: {error}")
