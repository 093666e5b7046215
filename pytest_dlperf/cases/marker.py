"""Reads ``@pytest.mark.dlperf``: the marker holds the whole case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.cases.matrix import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def cases_of(args: Sequence[Any], kwargs: Mapping[str, Any], *, function: str) -> tuple[Case, ...]:
    """Return the cases that a marker with these arguments declares.

    Either ``cases=CASES`` alone, or the workload and the keys of ``expand``; the suite is then
    the test's name without ``test_`` unless it is given. Raises ``UsageError``.
    """
    if "cases" in kwargs:
        if args or len(kwargs) > 1:
            raise UsageError("the marker takes either cases=... alone, or a workload and its keys")
        cases = tuple(kwargs["cases"])
        for case in cases:
            if not isinstance(case, Case):
                raise UsageError(
                    f"cases holds {case!r}; make cases with pytest_dlperf.expand(...)"
                )
        if not cases:
            raise UsageError("cases is empty; give at least one")
        return cases
    if len(args) > 1:
        raise UsageError(
            f"the marker takes one workload, not {len(args)} positional arguments; name the rest"
        )
    keys = dict(kwargs)
    if args:
        keys["workload"] = args[0]
    keys.setdefault("suite", function.removeprefix("test_"))
    return expand(**keys)
