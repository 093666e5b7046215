"""Convert an outcome to the rows of a history, and back."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.command_results import JudgedPoint
from pytest_dlperf.core.cost import COST_CLASS
from pytest_dlperf.core.errors import HistoryError, UsageError
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.outcome import Confirmation, Outcome, outcome_from_json, outcome_to_json
from pytest_dlperf.core.writable import writable_values

#: Characters of a text among the scalars.
_LONGEST: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One outcome, cut into what each table holds of it."""

    identity: str
    #: Columns of the series, its digest among them.
    series: dict[str, str]
    #: Columns of the software, its digest among them.
    software: dict[str, str]
    #: Columns of the outcome, without its numbers.
    scalars: dict[str, Any]
    whole: bytes


def record_of(outcome: Outcome, *, mode: str) -> Record:
    """Return the rows of ``outcome`` in a session of that mode."""
    values = outcome_to_json(outcome)
    if values["environment"]:
        values["environment"].pop("packages")  # they are with the software, once
    software = canonical(software_of(outcome.environment))
    return Record(
        identity=identity_of(outcome),
        series=_storable(_series(outcome)),
        software={"versions": software, "digest": digest(software)},
        scalars=_short(_storable(_scalars(outcome) | {"mode": mode})),
        whole=zlib.compress(canonical(values).encode()),
    )


#: Begins the name of an installed package among the software.
_PACKAGE: Final = "package "


def software_of(environment: Environment | None) -> dict[str, str]:
    """Return the software of an environment, the installed packages among it."""
    if environment is None:
        return {}
    packages = {f"{_PACKAGE}{name}": version for name, version in environment.packages.items()}
    return {**environment.software, **packages}


def outcome_of(whole: bytes, *, where: str) -> Outcome:
    """Return the outcome of a row; ``where`` names it in ``HistoryError``."""
    try:
        return outcome_from_json(json.loads(zlib.decompress(whole)))
    except (zlib.error, ValueError, UsageError) as error:
        raise HistoryError(f"{where}: {error}") from error


def judged_point_of(whole: bytes, *, number: int, where: str) -> JudgedPoint:
    """Return what the outcome of a row was judged by; ``where`` names it in ``HistoryError``.

    No other part of the outcome is decoded: that takes seven times as long.
    """
    try:
        values = json.loads(zlib.decompress(whole))
        judgement, stages = values["judgement"], values.get("confirmation")
        slowdown = values["case"].get("known")
        # What stored sessions said of it, before pairs decided; an A/B has none
        stored = {} if values.get("against") else stages["stored"] if stages else judgement
        interval = stored.get("interval")
        return JudgedPoint(
            number=number,
            reason=judgement["reason"],
            known_slowdown=None if slowdown is None else decode(Known, slowdown),
            runs=tuple(run["throughput"] for run in (values["measurement"] or {}).get("runs", ())),
            level=stored.get("before"),
            tolerance=stored.get("tolerance"),
            interval=None if interval is None else (interval[0], interval[1]),
        )
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise HistoryError(f"{where}: {error}") from error


def identity_of(outcome: Outcome) -> str:
    """Return a digest unique to the outcome; later versions compute the same of old files."""
    environment, measurement = outcome.environment, outcome.measurement
    return digest(
        canonical(
            [
                outcome.case.id,
                outcome.node_id,
                outcome.time,
                outcome.commit,
                outcome.judgement.verdict.value,
                outcome.elapsed_s,
                environment.node if environment else "",
                measurement.throughputs if measurement else (),
            ]
        )
    )


def _series(outcome: Outcome) -> dict[str, str]:
    environment, measurement = outcome.environment, outcome.measurement
    columns = {
        "case_id": outcome.case.id,
        "machine_class": environment.machine_class if environment else "",
        "node": _nodes(outcome),
        "unit": measurement.unit if measurement else outcome.case.unit,
        "conditions": canonical(encode(measurement.conditions) if measurement else None),
    }
    return columns | {"digest": digest(canonical(columns))}


def _nodes(outcome: Outcome) -> str:
    """Return the nodes of its ranks; that of the environment where no rank reports one.

    A cost is of no machine: whatever node traced it, it has one series.
    """
    if outcome.environment and outcome.environment.machine_class == COST_CLASS:
        return ""
    runs = outcome.measurement.runs if outcome.measurement else ()
    nodes = sorted({rank.node for run in runs for rank in run.ranks if rank.node})
    return ",".join(nodes) or (outcome.environment.node if outcome.environment else "")


def _scalars(outcome: Outcome) -> dict[str, Any]:
    judgement, measurement, against = outcome.judgement, outcome.measurement, outcome.against
    # Runs without a verdict are in the outcome; as a level they would count twice, once resumed
    is_whole = measurement and measurement.runs and not outcome.interrupted
    whole = measurement if is_whole else None
    return {
        "time": outcome.time,
        "commit_hash": outcome.commit,
        # Where git says the commit, and not what is modified, it may be
        "dirty": outcome.dirty or bool(outcome.commit and outcome.checkout_problem),
        "verdict": judgement.verdict.value,
        "code": judgement.code,
        "failed": outcome.failed,
        "throughput": whole.throughput if whole else None,
        "change": judgement.throughput.judged_change,
        "speedup": whole.speedup if whole else None,
        "peak_memory_bytes": whole.peak_memory_bytes if whole else None,
        "runs": len(measurement.runs) if measurement else 0,
        "inject": measurement.inject if measurement else 0.0,
        "disturbed": any(run.disturbed for run in measurement.runs) if measurement else False,
        "against": against.name if against else "",
        "arm": against.now if against else "",
        **_confirmed(outcome.confirmation),
    }


def _confirmed(confirmation: Confirmation | None) -> dict[str, Any]:
    measured = None if confirmation is None else confirmation.measurement
    if confirmation is None or confirmation.pairs is None or measured is None:
        return {"confirmed_against": "", "pairs_verdict": "", "pairs": 0}
    return {
        "confirmed_against": confirmation.commit,
        "pairs_verdict": confirmation.pairs.verdict.value,
        "pairs": len(measured.runs) + len(measured.disturbed_runs),
    }


def _storable(columns: dict[str, Any]) -> dict[str, Any]:
    """Return ``columns``, with NUL and half characters, which PostgreSQL refuses, in words."""
    return {name: writable_values(value) for name, value in columns.items()}


def _short(columns: dict[str, Any]) -> dict[str, Any]:
    """Return ``columns`` with texts that fit into an index; the whole outcome has all of them."""
    return {
        name: value
        if not isinstance(value, str) or len(value) <= _LONGEST
        else f"{value[: _LONGEST - 1]}…"
        for name, value in columns.items()
    }


def canonical(values: Any) -> str:
    """Return JSON that equal values have in common."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return 128 bits of the SHA-256 of ``text``, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
