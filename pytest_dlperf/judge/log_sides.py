"""Two sides of training logs: whether they are the same training, as far as they tell."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclass field
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.run import Problem  # noqa: TC001 - dataclass field
from pytest_dlperf.core.synonyms import same_precision, same_unit
from pytest_dlperf.judge import refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Problem codes that leave open which training it is that a log measured.
DOUBTFUL: Final = (
    frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})
    | refusals.UNCHECKED
    | refusals.DISTURBED
)
#: A training that came to nothing, whose speed means nothing.
LOST: Final = frozenset({"loss-not-finite"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRun:
    """What one log says of one run. Rates are global, in the unit a second."""

    throughput: float
    #: By other rules as well: ``mean_of_rates``, ``median_of_rates``, ``time_weighted``.
    estimates: Mapping[str, float]
    data_wait_share: float | None = None
    #: The stretch that disagrees most, in words; empty if the rules agree.
    stall: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogArm:
    """One side: runs of one training, or the sessions of a baseline."""

    name: str
    unit: str
    #: Throughputs of the runs of each session.
    sessions: tuple[tuple[float, ...], ...]
    world_size: int | None = None
    batch_size_per_device: int | None = None
    precision: str | None = None
    #: What logs say of the runs; empty where only rates are known.
    runs: tuple[LogRun, ...] = ()
    #: What is odd about the runs.
    problems: tuple[Problem, ...] = ()
    #: What is odd elsewhere: to be shown, and no reason against a verdict.
    remarks: tuple[Problem, ...] = ()
    #: Where it was read from.
    files: frozenset[str] = frozenset()


def differs(before: LogArm, now: LogArm) -> str:
    """Return what makes the sides different trainings, or nothing."""
    fields = [
        f"{words}: {mine}, was {theirs}"
        for words, mine, theirs, same in (
            ("unit", now.unit, before.unit, same_unit(now.unit, before.unit)),
            *(
                (words, mine, theirs, _is_same(mine, theirs))
                for words, mine, theirs in _conditions(before, now)
            ),
        )
        if not same
    ]
    return f"these are not the same training ({', '.join(fields)})" if fields else ""


def _conditions(
    before: LogArm, now: LogArm
) -> tuple[tuple[str, int | str | None, int | str | None], ...]:
    """Return what must be equal, now and before, each in words; None is unknown."""
    return (
        ("devices", now.world_size, before.world_size),
        ("batch size per device", now.batch_size_per_device, before.batch_size_per_device),
        ("precision", now.precision, before.precision),
    )


def _is_same(mine: int | str | None, theirs: int | str | None) -> bool:
    if mine is None or theirs is None:
        return True
    if isinstance(mine, str) and isinstance(theirs, str):
        return same_precision(mine, theirs)
    return mine == theirs


def problems(before: LogArm, now: LogArm, codes: frozenset[str]) -> str:
    """Return why the problems of these codes forbid to judge, or nothing."""
    found = [p.message for arm in (before, now) for p in arm.problems if p.code in codes]
    what = "; ".join(dict.fromkeys(found))
    if not what or codes is not DOUBTFUL:
        return what
    return f"which training was measured is in doubt, so nothing is compared ({what})"


def unknown(before: LogArm, now: LogArm) -> Sequence[str]:
    """Say which conditions could not be compared, because a side does not tell them."""
    said: dict[str, list[str]] = {}
    for words, mine, theirs in _conditions(before, now):
        if mine is None or theirs is None:
            both = "neither side says its"
            one = f"{before.name if theirs is None else 'the log'} does not say its"
            said.setdefault(both if mine is theirs else one, []).append(words)
    return [f"{who} {' and '.join(words)}" for who, words in said.items()]


def same_files(before: LogArm, now: LogArm) -> Sequence[str]:
    """Say that files are on both sides: what is compared with itself cannot differ."""
    shared = sorted(before.files & now.files)
    if not shared:
        return ()
    if before.files == now.files:
        return ("both sides are the very same " + ("file" if len(shared) == 1 else "files"),)
    return (f"{', '.join(shared)} {'is' if len(shared) == 1 else 'are'} on both sides",)
