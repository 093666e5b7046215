"""Read sessions by node from baselines and results files, and estimate how fast each node is."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.findings import NodeEffects
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.judge.stats.node_effects import Observation, node_effects
from pytest_dlperf.store.baseline.stored_session import session_of


def compare_nodes(
    baselines: Iterable[Baseline], outcomes: Iterable[Outcome], *, alpha: float
) -> NodeEffects:
    """Return how fast each node is over the measured sessions of both.

    A session that is stored and in a results file as well counts once.
    """
    measured: dict[tuple[str, str, tuple[float, ...]], tuple[str, Session]] = {}
    for case, session in (*_stored(baselines), *_of_results(outcomes)):
        measured.setdefault((case, session.time, session.runs), (case, session))
    observed = [
        Observation(
            case=case,
            node=session.node,
            log_throughput=math.log(statistics.median(session.runs)),
            time=session.time,
            commit=session.commit,
        )
        for case, session in measured.values()
        if session.node
    ]
    return node_effects(observed, alpha=alpha, without_node=len(measured) - len(observed))


def _stored(baselines: Iterable[Baseline]) -> Iterator[tuple[str, Session]]:
    for baseline in baselines:
        if baseline.source.kind != "measured":
            continue
        name = _case(baseline.machine_class, baseline.case_id, baseline.conditions)
        yield from ((name, session) for session in baseline.sessions)
        for level in baseline.history:
            # Of other conditions, or of the same at another level: either way a case of its own.
            old = f"{name} until {level.replaced}"
            yield from ((old, session) for session in level.sessions)


def _of_results(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, Session]]:
    for outcome in outcomes:
        measurement, environment = outcome.measurement, outcome.environment
        if measurement is None or not measurement.runs or measurement.inject:
            continue
        machine_class = environment.machine_class if environment else ""
        session = session_of(outcome, reason="")
        first = next((run.ranks[0].node for run in measurement.runs if run.ranks), "")
        yield (
            _case(machine_class, outcome.case.id, measurement.conditions),
            replace(session, node=first or session.node),
        )


def _case(machine_class: str, case_id: str, conditions: Conditions | None) -> str:
    same = json.dumps(encode(conditions), sort_keys=True)
    return f"{machine_class} {case_id} {same}"
