"""The JSON output of ``dlperf judge``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.verdict import BAD, Judgement
from pytest_dlperf.flow.from_logs import Training
from pytest_dlperf.flow.sides import baseline_of, problems_of
from pytest_dlperf.report.schemas import FORMAT


def judged_to_json(
    pairs: Mapping[str, tuple[Training | None, Training | None]],
    found: Mapping[str, Judgement],
    *,
    alone: bool,
) -> dict[str, Any]:
    """Return the verdicts in plain JSON types.

    One training alone: its judgement. Several cases of results files: a results file that has
    these verdicts. Several trainings that logs tell of, which are no cases: a list of judgements.
    """
    if alone:
        [key] = found
        return {"format": FORMAT, **_judgement(key, found[key], pairs[key])}
    outcomes = [_outcome(found[key], *pairs[key]) for key in found]
    known = [outcome for outcome in outcomes if outcome is not None]
    if len(known) == len(outcomes):
        return results_to_json(known)
    return {
        "format": FORMAT,
        "trainings": [_judgement(key, one, pairs[key]) for key, one in found.items()],
    }


def _judgement(
    key: str, judgement: Judgement, pair: tuple[Training | None, Training | None]
) -> dict[str, Any]:
    values: dict[str, Any] = encode(judgement)
    return {
        **values.pop("throughput"),
        **values,
        "verdict": judgement.verdict.value,
        "training": key,
        "problems": [{"side": side, **encode(problem)} for side, problem in problems_of(*pair)],
    }


def _outcome(
    judgement: Judgement, before: Training | None, now: Training | None
) -> Outcome | None:
    """Return the case with its new verdict; None where no side knows what case it is."""
    failed = judgement.verdict in BAD
    if isinstance(now, Outcome):
        sessions = _sessions(before)
        return replace(
            now, judgement=judgement, baseline_sessions=sessions, failed=failed, update=""
        )
    if now is None and isinstance(before, Outcome):
        return Outcome(case=before.case, judgement=judgement, failed=failed)
    return None


def _sessions(before: Training | None) -> tuple[Session, ...]:
    if isinstance(before, Outcome) and before.measurement is not None and before.measurement.runs:
        before = baseline_of(before)
    return before.sessions if isinstance(before, Baseline) else ()
