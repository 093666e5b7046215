"""The words of an explanation: which parts of a step changed, by how much, and the operators."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.outcome import (
    Explanation,
    MemoryChange,
    OperatorChange,
    PartChange,
    RankWait,
)
from pytest_dlperf.core.quantity import amount

#: Parts in a sentence.
_CLAUSES: Final = 3


def change_words(
    parts: Sequence[PartChange],
    operators: Sequence[OperatorChange],
    difference_ms: float,
    *,
    has_spread: bool = True,
) -> str:
    """Return which parts made a step longer or shorter, and by which operators.

    ``has_spread``: both sides have two profiles, so that it is known how much equal ones differ.
    """
    named = [part for part in parts if part.named and part.difference_ms]
    way = "more" if difference_ms > 0 else "less"
    if not named and not has_spread:
        return (
            f"of {_ms(abs(difference_ms))} ms {way} a step, no part is named: a side has one "
            "profile, so how much equal ones differ is not known"
        )
    if not named:
        return (
            f"of {_ms(abs(difference_ms))} ms {way} a step, no part differs by more than equal "
            "profiles do"
        )
    named.sort(key=lambda part: -abs(stated_ms(part)))
    clauses = [
        f"{part.part} {_signed(part)}{_because(part, operators)}" for part in named[:_CLAUSES]
    ]
    return f"of {_ms(abs(difference_ms))} ms {way} a step: {', '.join(clauses)}"


def contradiction_words(
    operators: Sequence[OperatorChange], difference_ms: float, spread_ms: float
) -> str:
    """Return that the profiles do not show the judged change, and what is certain all the same."""
    added = [
        operator
        for operator in operators
        if operator.named and (operator.is_added or operator.is_removed)
    ]
    certain = "".join(
        f"; {operator.operator} was {'added' if operator.is_added else 'removed'} "
        f"({_ms(max(operator.before_ms or 0, operator.after_ms))} ms)"
        for operator in added[:_CLAUSES]
    )
    return (
        f"the profile does not show it: its steps take {_ms(abs(difference_ms))} ms "
        f"{'more' if difference_ms > 0 else 'less'}, and equal profiles differ by "
        f"{_ms(spread_ms)} ms{certain}"
    )


def waits_words(rank: int, waits: Sequence[RankWait]) -> str:
    """Return which ranks wait longer for the critical one; empty if none does."""
    critical = next((wait for wait in waits if wait.rank == rank), None)
    named = [wait for wait in waits if wait.named]
    if critical is None or not named:
        return ""
    most = max(named, key=lambda wait: wait.after_ms - (wait.before_ms or 0.0))
    more_ms = (most.after_ms - critical.after_ms) - (
        (most.before_ms or 0.0) - (critical.before_ms or 0.0)
    )
    further = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return f"; rank {most.rank}{further} waits {_ms(more_ms)} ms longer for rank {rank}"


def memory_words(explanation: Explanation) -> str:
    """Return where what is allocated at the peak grew; of now alone, where most of it is."""
    before, now = explanation.before_peak_bytes, explanation.after_peak_bytes
    if now is None:
        return "where the memory is allocated was not recorded"
    if before is None:
        largest = sorted(explanation.memory, key=lambda place: -place.after_bytes)[:_CLAUSES]
        words = ", ".join(f"{place.place} {_mib(place.after_bytes)}" for place in largest)
        return (
            f"of the {_mib(now)} MiB at the peak of profiled steps now: {words}; no profile of "
            "before is there to compare with"
        )
    grew = [place for place in explanation.memory if place.named and _more_bytes(place) > 0]
    if now <= before or not grew:
        return (
            "the profile does not show where the memory grew: its steps allocate "
            f"{_mib(before)} to {_mib(now)} MiB at their peak"
        )
    clauses = [
        f"{place.place} +{_mib(_more_bytes(place))}{_allocations(place)}"
        for place in grew[:_CLAUSES]
    ]
    return f"of {_mib(now - before)} MiB more at the peak of profiled steps: {', '.join(clauses)}"


def _more_bytes(one: MemoryChange) -> float:
    return one.after_bytes - (one.before_bytes or 0.0)


def _allocations(one: MemoryChange) -> str:
    if one.before_count is None or one.before_count == one.after_count:
        return ""
    return f" ({one.before_count:g} to {one.after_count:g} allocations)"


def _mib(size_bytes: float) -> str:
    return amount(size_bytes / 2**20)


def now_words(now: Sequence[dict[str, float]], parts: Sequence[str], whole_ms: float) -> str:
    """Return the longest parts of a step, where no profile of before is there."""
    mean = {part: statistics.fmean(one.get(part, 0.0) for one in now) for part in parts}
    largest = sorted(mean, key=lambda part: -mean[part])[:_CLAUSES]
    words = ", ".join(f"{part} {_ms(mean[part])}" for part in largest)
    return (
        f"of the {_ms(whole_ms)} ms of a profiled step now: {words}; no profile of before is "
        "there to compare with"
    )


def stated_ms(part: PartChange) -> float:
    """Return what is said of a named part: what its calls account for, where that is certain."""
    if part.by_calls_ms is not None:
        return part.by_calls_ms
    return part.difference_ms or 0.0


def _signed(part: PartChange) -> str:
    difference = stated_ms(part)
    return f"{'+' if difference > 0 else '-'}{_ms(abs(difference))}"


def _because(part: PartChange, operators: Sequence[OperatorChange]) -> str:
    """Return the operator that explains most of a part's change, in brackets; empty for none."""
    of_part = [operator for operator in operators if operator.part == part.part and operator.named]
    if not of_part:
        return ""
    operator = max(of_part, key=lambda change: abs(change.difference_ms or 0))
    where = f" in {operator.path}" if operator.path else ""
    calls = ""
    if operator.before_calls != operator.after_calls:
        calls = f", {operator.before_calls:g} to {operator.after_calls:g} calls"
    times = f"{_ms(operator.before_ms or 0)} to {_ms(operator.after_ms)} ms"
    return f" ({operator.operator}{where} {times}{calls})"


def _ms(value: float) -> str:
    """Return milliseconds with three figures, whole from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
