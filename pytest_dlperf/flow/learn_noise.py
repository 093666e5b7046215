"""Estimate a machine class's noise from stored sessions, and what later sessions can detect."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import LearntNoise, MachineNoise, Prior, Rule
from pytest_dlperf.judge.later import later_session
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.judge.stats.learn import learn
from pytest_dlperf.judge.stats.priors import PAIRS, THROUGHPUT
from pytest_dlperf.store.baseline import noise_file
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.update import KEPT_SESSIONS


def learn_noise(store: BaselineStore, machine_class: str) -> None:
    """Estimate the noise of ``machine_class`` from its baselines and write it to its file.

    Raises ``BaselineError`` if the file cannot be written.
    """
    noise_file.write(store.root, machine_class, lambda: _learnt(store, machine_class))


def prior_of(store: BaselineStore, outcome: Outcome) -> Prior | None:
    """Return the known noise of the machine that measured ``outcome``; None if there is none."""
    if outcome.environment is None:
        return None
    noise = store.noise(outcome.environment.machine_class)
    return None if noise is None else noise.prior(outcome.case.world_size)


def with_later_sessions(
    store: BaselineStore, outcomes: Sequence[Outcome], rule: Rule, *, count_family: bool
) -> list[Outcome]:
    """Return ``outcomes``; those that were stored say what later sessions can detect by that.

    ``count_family``: alpha is split over the cases that are stored, else as ``rule`` says.
    """
    # Another store: a session's own keeps the noise that was known when it began.
    store = BaselineStore(store.root)
    entries, _ = store.readable()
    found = []
    for outcome in outcomes:
        if not outcome.update or outcome.environment is None:
            found.append(outcome)
            continue
        machine_class = outcome.environment.machine_class
        stored = [e.baseline for e in entries if e.baseline.machine_class == machine_class]
        own = next((one for one in stored if one.case_id == outcome.case.id), None)
        known = replace(rule, prior=prior_of(store, outcome))
        if count_family:
            known = replace(known, family=family_size(stored))
        if own is not None:
            later = later_session(outcome.case, own, known, kept_sessions=KEPT_SESSIONS)
            outcome = replace(outcome, later=later)
        found.append(outcome)
    return found


def _learnt(store: BaselineStore, machine_class: str) -> MachineNoise | None:
    by_world_size: defaultdict[int, list[Baseline]] = defaultdict(list)
    entries, _ = store.readable()  # a broken file is reported with its case
    for entry in entries:
        baseline = entry.baseline
        if baseline.machine_class == machine_class and baseline.source.kind == "measured":
            by_world_size[CaseId.parse(baseline.case_id).layout.world_size].append(baseline)
    found = {str(size): _of_cases(cases) for size, cases in sorted(by_world_size.items())}
    known = {size: noise for size, noise in found.items() if noise is not None}
    return MachineNoise(machine_class=machine_class, world_sizes=known) if known else None


def _of_cases(baselines: Sequence[Baseline]) -> LearntNoise | None:
    levels: list[Sequence[Session]] = []
    for baseline in baselines:
        # Each replaced level counts by itself: the step between two levels is not noise.
        levels += [baseline.sessions, *(level.sessions for level in baseline.history)]
    return of_levels(levels, CaseId.parse(baselines[0].case_id).layout.device)


def of_levels(levels: Sequence[Sequence[Session]], device: DeviceKind) -> LearntNoise | None:
    """Return the noise learnt from the sessions of each level; None if they are too few."""
    found = learn(levels, THROUGHPUT[device])
    if found is None:
        return None
    by_median = learn([list(_by_median(sessions)) for sessions in levels], PAIRS[device])
    if by_median is not None:
        found = replace(found, median_run_sd=by_median.run_sd, median_run_df=by_median.run_df)
    return found


def _by_median(sessions: Sequence[Session]) -> Iterator[Session]:
    """Yield each session with the rates of its median iterations, where they are known."""
    for session in sessions:
        rates = session.estimates.get("median_step", ())
        if rates and all(math.isfinite(rate) and rate > 0 for rate in rates):
            yield replace(session, runs=rates)
