"""Sessions of a made-up case over many days, from a seed."""

from __future__ import annotations

import datetime
import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")

from pytest_dlperf import cli
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.outcome import Outcome
from tests.helpers.report_builders import ENVIRONMENT, case, measured, run

BEGIN = datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.timezone.utc)
#: What one session differs from another by, and one run of a session from the next.
SESSION_NOISE, RUN_NOISE = 0.01, 0.004


def commit(day: int) -> str:
    return hashlib.sha1(str(day).encode()).hexdigest()


def outcome(
    day: int = 0,
    *,
    rates: Sequence[float] = (100.0, 101.0, 102.0),
    of: Case | None = None,
    node: str = "node1",
    software: dict[str, str] | None = None,
    **fields: Any,
) -> Outcome:
    """Return an outcome of one day; its figures are those of ``rates``."""
    of = of or case()
    when = BEGIN + datetime.timedelta(days=day)
    environment = replace(ENVIRONMENT, node=node)
    if software:
        environment = replace(environment, software={**ENVIRONMENT.software, **software})
    values: dict[str, Any] = {
        "environment": environment,
        "time": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "commit": commit(day),
        "node_id": f"perf_tests/test_net.py::test_net[{of.id}]",
        "elapsed_s": 60.0 + day,
    }
    return measured(of, *rates, **values | fields)


def days(
    number: int,
    *,
    changed_on: int | None = None,
    change: float = -0.04,
    seed: int = 7,
    level: float = 1000.0,
    **fields: Any,
) -> Iterator[Outcome]:
    """Yield an outcome a day; from the day of the change on, the level is another."""
    noise = random.Random(f"{seed} {fields.get('node')}")
    for day in range(number):
        here = level * (1 + change) if changed_on is not None and day >= changed_on else level
        here *= 1 + noise.gauss(0, SESSION_NOISE)
        rates = [here * (1 + noise.gauss(0, RUN_NOISE)) for _ in range(5)]
        yield outcome(day, rates=rates, **fields)


def with_canary(of: Outcome, rate: float) -> Outcome:
    assert of.measurement is not None
    runs = tuple(
        replace(run(one.throughput), canary={"matmul_gflop_per_s": rate})
        for one in of.measurement.runs
    )
    return replace(of, measurement=replace(of.measurement, runs=runs))


def text(capsys: Any, *arguments: str, code: int = 0) -> str:
    """Return what ``dlperf history`` printed, which ended with ``code``."""
    assert cli.main(["history", *arguments]) == code
    told = capsys.readouterr()
    return str(told.err if code == 2 else told.out)
