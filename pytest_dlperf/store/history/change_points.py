"""Where a series changes its level, as Apache Otava finds it: the one module that calls it.

Its functions are no public interface, hence the pinned version and
``tests/history/test_change_points.py``. The candidate is the best split there is, and only then
tested: its p is no rate of false alarms. Of series without a change, of 20 to 40 points that
vary by 1 %, 0 to 3 % had one with these bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Points that are looked at at once.
_WINDOW: Final = 30
#: Bounds of the test beside a split, and of the share by which the levels differ.
P_MAX: Final = 0.001
SHARE_MIN: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """A new level begins at ``index``."""

    index: int
    p: float


def change_points(values: Sequence[float], *, share_min: float = SHARE_MIN) -> tuple[Split, ...]:
    """Return the splits of a series, oldest first.

    ``share_min`` is the smallest share by which levels must differ. Raises ``UsageError`` where
    Otava is not installed.
    """
    try:
        from otava.analysis import compute_change_points
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed, so that nothing finds the changes of a series; "
            "pip install 'pytest-dlperf[history]'"
        ) from error
    found, _ = compute_change_points(
        list(values), window_len=_WINDOW, max_pvalue=P_MAX, min_magnitude=share_min
    )
    splits = [Split(index=int(one.index), p=float(one.stats.pvalue)) for one in found]
    return tuple(sorted(splits, key=lambda split: split.index))
