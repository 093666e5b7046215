"""A plugin for sessions of which facts are looked at, and not speed: no run is repeated.

A run that others disturbed has the same facts. With ``--dlperf-max-runs=1`` a session then costs
as many launches on a busy machine as on a quiet one.
"""

from __future__ import annotations

from pytest_dlperf.flow import runner


def pytest_configure() -> None:
    runner._FEWEST_REPEATS = 0  # type: ignore[misc]
