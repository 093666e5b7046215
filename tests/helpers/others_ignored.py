"""A plugin for real sessions whose verdict must not depend on what else a machine does.

What others use of the CPUs refuses no run. It is for pairs with a planted slowdown alone, which
is far beyond what others could do to one arm and not to the other.
"""

from __future__ import annotations

import math

from pytest_dlperf.measure import disturbance


def pytest_configure() -> None:
    disturbance._LEAST_S = math.inf  # type: ignore[misc]
