"""Outcomes as plain JSON types, and back; the shape of results files.

An outcome holds its case's ``id`` and the summary figures beside what they are made of; a
judgement holds the keys of its throughput's comparison directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Version of results files. 1: the first.
RESULTS_FORMAT: Final = 1
#: Figures that are written for readers, and derived again when read.
DERIVED: Final = ("throughput", "speedup", "efficiency", "peak_memory_bytes")


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return ``outcome`` in plain JSON types."""
    values: dict[str, Any] = encode(outcome)
    values["case"]["id"] = outcome.case.id
    judgement = values["judgement"]
    judgement |= judgement.pop("throughput") | {"verdict": outcome.judgement.verdict.value}
    for measured, written in (
        (outcome.measurement, values),
        (outcome.against and outcome.against.measurement, values["against"]),
    ):
        if measured:
            written["measurement"] |= {name: getattr(measured, name) for name in DERIVED}
    return values


def outcome_from_json(values: Any) -> Outcome:
    """Return the outcome that ``outcome_to_json`` wrote; raise ``UsageError`` if it is none."""
    try:
        values = {key: dict(v) if isinstance(v, dict) else v for key, v in values.items()}
        for name in ("case", "judgement"):
            if not isinstance(values[name], dict):
                raise DecodeError(f"{name}: expected an object, found {values[name]!r}")
        values["case"].pop("id", None)
        judgement = values["judgement"]
        own = {key: judgement.pop(key) for key in ("verdict", "reason", "metrics")}
        own["known"] = judgement.pop("known", None)
        values["judgement"] = {**own, "throughput": {**judgement, "verdict": None}}
        if isinstance(values.get("against"), dict):
            values["against"] = _without_derived(values["against"])
        return decode(Outcome, _without_derived(values))
    except (DecodeError, KeyError, AttributeError) as error:
        raise UsageError(f"not an outcome: {error}") from error


def _without_derived(values: dict[str, Any]) -> dict[str, Any]:
    measured = values.get("measurement")
    if not isinstance(measured, dict):
        return values
    kept = {name: value for name, value in measured.items() if name not in DERIVED}
    return {**values, "measurement": kept}


def results_to_json(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the contents of a results file."""
    return {"format": RESULTS_FORMAT, "outcomes": [outcome_to_json(o) for o in outcomes]}


def results_from_json(values: Any, *, where: str) -> tuple[Outcome, ...]:
    """Return the outcomes of a results file; ``where`` names it in ``UsageError``."""
    if not isinstance(values, dict) or not isinstance(values.get("outcomes"), list):
        raise UsageError(f"{where}: not a results file of --dlperf-json")
    if values.get("format") != RESULTS_FORMAT:
        raise UsageError(
            f"{where}: format {values.get('format')!r}, this version reads {RESULTS_FORMAT}"
        )
    try:
        return tuple(outcome_from_json(item) for item in values["outcomes"])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
