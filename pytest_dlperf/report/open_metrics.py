"""The figures of a session as OpenMetrics text, which GitLab compares between branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report.confirmation import pair_count
from pytest_dlperf.report.printable import printable
from pytest_dlperf.report.sort_order import Standing, standing

#: Digits that are written: GitLab compares texts, and shows each that differs.
_DIGITS: Final = 4


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the text; a figure that is not known is absent."""
    lines = []
    for name, unit, help_, value in _METRICS:
        measured = [(outcome, value(outcome)) for outcome in outcomes]
        lines += [f"# TYPE {name} gauge"]
        lines += [f"# UNIT {name} {unit}"] if unit else []
        lines += [f"# HELP {name} {help_}"]
        lines += [
            f"{name}{{{_labels(outcome)}}} {_number(figure)}"
            for outcome, figure in measured
            if figure is not None
        ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _throughput(outcome: Outcome) -> float | None:
    return None if outcome.interrupted else outcome.judged_throughput


def _speedup(outcome: Outcome) -> float | None:
    measurement = _measurement(outcome)
    return None if measurement is None else measurement.speedup


def _memory(outcome: Outcome) -> float | None:
    measurement = _measurement(outcome)
    return None if measurement is None else measurement.peak_memory_bytes


def _measurement(outcome: Outcome) -> Measurement | None:
    """Return the measurement; None where the session ended before it was whole."""
    return None if outcome.interrupted else outcome.measurement


_METRICS: Final[tuple[tuple[str, str, str, Callable[[Outcome], float | None]], ...]] = (
    (
        "dlperf_throughput",
        "",
        "Global rate, in the case's unit a second.",
        _throughput,
    ),
    (
        "dlperf_change_ratio",
        "ratio",
        "Rate now over the baseline's, less one.",
        lambda outcome: outcome.judgement.throughput.judged_change,
    ),
    (
        "dlperf_sees_ratio",
        "ratio",
        "The smallest slowdown that could have been shown.",
        lambda outcome: outcome.judgement.throughput.sees,
    ),
    (
        "dlperf_speedup",
        "",
        "Rate over that of the same case on one device, or on its reference layout.",
        _speedup,
    ),
    ("dlperf_peak_memory_bytes", "bytes", "Largest peak of a rank.", _memory),
    (
        "dlperf_pairs",
        "",
        "Pairs of runs that decided where stored sessions did not.",
        lambda outcome: pair_count(outcome.confirmation) if outcome.confirmation else 0,
    ),
    (
        "dlperf_failed",
        "",
        "1 if the case failed.",
        lambda outcome: int(standing(outcome) is Standing.FAILED),
    ),
    (
        "dlperf_not_judged",
        "",
        "1 if the case neither passed nor failed.",
        lambda outcome: int(standing(outcome) is Standing.APART),
    ),
)


def _labels(outcome: Outcome) -> str:
    labels = {"case": outcome.case.id}
    if outcome.measurement is not None:
        labels["unit"] = outcome.measurement.unit
    if outcome.environment is not None:
        labels["machine_class"] = outcome.environment.machine_class
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return printable(text).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return f"{value:.{_DIGITS}g}"
