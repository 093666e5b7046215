"""Learns the noise of machine classes from their baselines, once a session has written some."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_dlperf.baseline import noise_file
from pytest_dlperf.core.case_id import CaseId
from pytest_dlperf.core.noise import LearntNoise, MachineNoise
from pytest_dlperf.judge.learn import learn
from pytest_dlperf.judge.priors import THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.baseline.store import BaselineStore
    from pytest_dlperf.core.baseline import Baseline, Session
    from pytest_dlperf.core.noise import Prior
    from pytest_dlperf.core.outcome import Outcome


def learn_noise(store: BaselineStore, machine_class: str) -> None:
    """Write what the baselines of ``machine_class`` tell of its noise.

    Raises ``BaselineError`` if the file cannot be written.
    """
    noise_file.write(store.root, machine_class, lambda: _learnt(store, machine_class))


def prior_of(store: BaselineStore, outcome: Outcome) -> Prior | None:
    """Return what is known of the noise of the machine that measured ``outcome``."""
    if outcome.environment is None:
        return None
    noise = store.noise(outcome.environment.machine_class)
    return None if noise is None else noise.prior(outcome.case.world_size)


def _learnt(store: BaselineStore, machine_class: str) -> MachineNoise | None:
    by_world_size: defaultdict[int, list[Baseline]] = defaultdict(list)
    entries, _ = store.readable()  # what is broken is told where the case is judged
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
        # A replaced level has its own noise; the step between levels is none.
        levels += [baseline.sessions, *(level.sessions for level in baseline.history)]
    device = CaseId.parse(baselines[0].case_id).layout.device
    return learn(levels, THROUGHPUT[device])
