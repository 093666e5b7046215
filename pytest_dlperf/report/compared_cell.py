"""One cell of a comparison: the measured rate or why there is none, and the published one."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.environment_section import fields_of

#: Fields of ``Conditions`` and of the software, and how a footnote names them. Batch size and
#: devices are the row; versions and images differ by framework, and stand with the environments.
_SHARED: Final = {
    "unit": "unit",
    "window": "measured iterations",
    "dtype": "dtype",
    "data": "data",
    "hardware": "hardware",
    "threads_per_rank": "threads per rank",
    "host_sharing": "host shared with others",
    "version": "version of the case",
    "driver": "driver",
}
#: Compared fields that a shared condition follows from: it need not be said again.
_FOLLOWS: Final = {
    "dtype": ("precision",),
    "hardware": ("machine_class", "gpu", "cpu"),
    "threads_per_rank": ("machine_class", "cpu", "hardware", "cores visible"),
}


def usual_conditions(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return, for each shared condition, the value that most of ``outcomes`` have.

    The first one's where as many have another. Empty if nothing was measured.
    """
    usual: dict[str, Any] = {}
    for name in _SHARED:
        counts = Counter(_value(outcome, name) for outcome in outcomes)
        if counts:
            usual[name] = counts.most_common(1)[0][0]
    return usual


def differences(outcome: Outcome, usual: dict[str, Any], compared: str) -> list[str]:
    """Return a footnote for every condition in which ``outcome`` is not as usual."""
    notes = []
    for name, words in _SHARED.items():
        condition = _value(outcome, name)
        expected = compared == name or compared in _FOLLOWS.get(name, ())
        if condition != usual[name] and not expected:
            notes.append(
                f"{words}: {_text(name, condition)} here, {_text(name, usual[name])} in the other "
                "cells of this table"
            )
    return notes


def _value(outcome: Outcome, name: str) -> Any:
    if name == "driver":
        return outcome.environment.software.get(name) if outcome.environment else None
    return getattr(outcome.measurement.conditions, name) if outcome.measurement else None


def _text(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if name == "unit":
        return f"{value}/s"
    if name == "window":
        first, end = value
        return f"{first} to {end}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


_NO_PARENT: Final = "the same case on one device was not measured with it"
_OVER: Final = "speedup over {}, not over one device"
_NO_LENGTH: Final = "the case names no samples_per_epoch and epochs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A published number of the same case."""

    throughput: float
    unit: str
    speedup: float | None
    time_to_train_s: float | None
    machine_class: str
    document: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """The content of one row and column; notes become footnotes."""

    throughput: float | None = None
    speedup: float | None = None
    #: Projected time of a whole training, without its validation.
    time_to_train_s: float | None = None
    published: tuple[Published, ...] = ()
    #: Why there is no throughput, or what to know of it; likewise of the others.
    notes: tuple[str, ...] = ()
    speedup_notes: tuple[str, ...] = ()
    time_to_train_notes: tuple[str, ...] = ()


def published_cell(baseline: Baseline) -> Published:
    """Return the published number that ``baseline`` holds."""
    seconds = baseline.facts.get("time_to_train_s")
    return Published(
        throughput=statistics.median(baseline.sessions[-1].runs),
        unit=baseline.unit,
        speedup=baseline.sessions[-1].speedup,
        time_to_train_s=seconds if isinstance(seconds, float | int) else None,
        machine_class=baseline.machine_class,
        document=baseline.source.document,
    )


def measured_cell(
    outcomes: Sequence[Outcome],
    published: tuple[Published, ...],
    *,
    field: str,
    usual: dict[str, Any],
) -> Cell:
    """Return the cell of the outcomes ``found`` for it; the latest measured one is shown."""
    outcome = max(outcomes, key=lambda o: (counts(o), o.time), default=None)
    if outcome is None or outcome.measurement is None or not counts(outcome):
        why = (_why_not(outcome),)
        return Cell(published=published, notes=why, speedup_notes=why, time_to_train_notes=why)
    measurement, case = outcome.measurement, outcome.case
    speedup = 1.0 if case.world_size == 1 else measurement.speedup
    notes = _warnings(outcome, [o for o in outcomes if counts(o)], field)
    notes += differences(outcome, usual, field)
    doubts = _doubts(outcome) if speedup is not None else [_NO_PARENT]
    if speedup is not None and measurement.reference is not None:
        doubts.append(_OVER.format(measurement.reference))
    samples = case.training_samples
    return Cell(
        throughput=measurement.throughput,
        speedup=speedup,
        time_to_train_s=None if samples is None else samples / measurement.throughput,
        published=published,
        notes=tuple(notes),
        speedup_notes=tuple(doubts),
        time_to_train_notes=() if samples is not None else (_NO_LENGTH,),
    )


def parent_cell(
    outcome: Outcome, published: tuple[Published, ...], *, field: str, usual: dict[str, Any]
) -> Cell:
    """Return the cell of the layout that the speedup of ``outcome`` is over."""
    assert outcome.measurement is not None
    reference = outcome.measurement.reference
    rate = statistics.median(outcome.measurement.parent_throughputs)
    samples = outcome.case.training_samples
    return Cell(
        throughput=rate,
        speedup=1.0,
        time_to_train_s=None if samples is None else samples / rate,
        published=published,
        notes=(*_doubts(outcome), *differences(outcome, usual, field)),
        speedup_notes=() if reference is None else (_OVER.format(reference),),
        time_to_train_notes=() if samples is not None else (_NO_LENGTH,),
    )


def counts(outcome: Outcome) -> bool:
    """Return whether the rate of ``outcome`` may be shown: not of an error, nor of some runs."""
    is_whole = outcome.judgement.verdict is not Verdict.ERROR and not outcome.interrupted
    return outcome.measurement is not None and is_whole


def _why_not(outcome: Outcome | None) -> str:
    if outcome is None:
        return "no result for it"
    return f"{outcome.judgement.verdict}: {outcome.judgement.reason}"


def _warnings(outcome: Outcome, outcomes: Sequence[Outcome], field: str) -> list[str]:
    """Return what to know of a rate before it is compared."""
    notes = []
    if len(outcomes) > 1:
        notes.append(
            f"the latest of {len(outcomes)} results, {outcome.time}{_differ(outcomes, field)}"
        )
    notes += _doubts(outcome)
    measurement = outcome.measurement
    if measurement is not None and measurement.inject:
        share = figures.percent(measurement.inject, sign=False)
        notes.append(f"steps were made {share} longer on purpose")
    return notes


def _doubts(outcome: Outcome) -> list[str]:
    if outcome.judgement.verdict in {Verdict.UNSTEADY, Verdict.INCOMPARABLE}:
        return [f"{outcome.judgement.verdict}: {outcome.judgement.reason}"]
    return []


def _differ(outcomes: Sequence[Outcome], field: str) -> str:
    """Return by which recorded fields the outcomes could be put apart."""
    recorded = [fields_of(outcome) for outcome in outcomes]
    names = sorted({name for fields in recorded for name in fields} - {field})
    differing = [name for name in names if len({fields.get(name) for fields in recorded}) > 1]
    if not differing:
        return ""
    return f"; they differ in {', '.join(differing)}, which --compare can put apart"
