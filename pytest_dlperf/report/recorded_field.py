"""Fields that an outcome records, by the names that people type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_dlperf.core.outcome import Outcome

#: What stands for a value that was not recorded.
UNKNOWN: Final = "unknown"
#: Fields of the case itself that are no row of a table.
CASE_FIELDS: Final = ("framework", "precision", "size", "suite", "launcher", "version")


def fields_of(outcome: Outcome) -> dict[str, str]:
    """Return what ``outcome`` records, by name; what is unknown is absent.

    A name that several parts have is the one of the first: case, software, machine,
    environment, workload options, conditions.
    """
    case, environment, measurement = outcome.case, outcome.environment, outcome.measurement
    values: dict[str, object] = {"commit": outcome.commit or None}
    if measurement is not None:
        values |= encode(measurement.conditions)
    values |= dict(case.options)
    if environment is not None:
        values |= {
            "machine_class": environment.machine_class,
            "node": environment.node,
            **environment.machine,
            **environment.software,
        }
    values |= {name: getattr(case, name) for name in CASE_FIELDS}
    return {
        name: str(value)
        for name, value in values.items()
        if value is not None and name not in {"world_size", "batch_size_per_device"}
    }


def field_names(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """Return the names that any of ``outcomes`` records, sorted."""
    return tuple(sorted({name for outcome in outcomes for name in fields_of(outcome)}))
