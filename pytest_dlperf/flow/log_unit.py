"""What the log of a user's program counts: its format, its unit, the work of an iteration.

Known before the program runs. What reads logs is imported where there is one: it needs NumPy,
whose import takes a tenth of a second.
"""

from __future__ import annotations

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.core.quantity import counts_batch
from pytest_dlperf.measure.logs import registry
from pytest_dlperf.measure.logs.declare import Format


def format_of(case: Case) -> Format | None:
    """Return the format that the case declares for its log; None to detect it."""
    if isinstance(case.log_format, LogPattern):
        from pytest_dlperf.measure.logs import user_pattern

        return user_pattern.format_of_pattern(case.log_format, case.unit)
    return registry.named(case.log_format) if case.log_format else None


def known_unit(case: Case) -> str:
    """Return what ``case`` counts in, as far as it is known before a run: else samples."""
    if case.unit:
        return case.unit
    if isinstance(case.log_format, LogPattern):
        return case.log_format.unit or registry.SAMPLES
    fmt = format_of(case)
    return fmt.unit if fmt is not None else registry.SAMPLES


def check_unit(case: Case) -> None:
    """Raise ``CaseError`` if the log that ``case`` names counts in another unit than it does."""
    fmt = format_of(case)
    if isinstance(case.log_format, LogPattern):
        check_unit_of(case, case.log_format.unit)
        _check_counted(case, case.log_format)
    elif fmt is not None:
        check_unit_of(case, fmt.unit)


def logged_batch(case: Case) -> int:
    """Return the work of one replica in an iteration, by which seconds in a log become a rate.

    Raises ``CaseError`` if nothing says it.
    """
    if not isinstance(case.log_format, LogPattern) or case.log_format.has_rate:
        return case.batch_size_per_device
    _check_counted(case, case.log_format)
    return case.work or case.batch_size_per_device


def _check_counted(case: Case, log: LogPattern) -> None:
    """Raise ``CaseError`` if a log has seconds alone, and the batch counts another unit."""
    unit = log.unit or case.unit
    is_counted = unit == registry.ITERATIONS or counts_batch(unit)
    if not log.has_rate and case.work is None and not is_counted:
        raise CaseError(
            f"the log has seconds, and nothing says how many {unit} a device trains in "
            f"one iteration: its batch of {case.batch_size_per_device} counts samples. Say it in "
            "the marker (work=...)",
            subject=case.id,
        )


def check_unit_of(case: Case, said: str | None) -> None:
    """Raise ``CaseError`` if a log counts in ``said``, and ``case`` in another unit."""
    if case.unit and said and case.unit != said:
        raise CaseError(
            f"the marker counts in {case.unit!r}, and the log that it reads in "
            f"{said!r}; say unit={said!r} in the marker, or leave it out there",
            subject=case.id,
        )
