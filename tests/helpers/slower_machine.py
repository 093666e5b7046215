"""Runs of a toy on a machine of a known speed, as a stored session and as a measurement."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Judgement, Rule
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import WORK, baseline, case, measurement, session, with_speeds

SUBJECT = case("1n1c")
RULE = Rule(family=2)
#: What the machine does to the runs of a session, and what is left of it in a rate.
MACHINE = (1.0, 0.85, 1.12, 0.9, 1.05)
OWN = (1.01, 0.99, 1.0, 1.015, 0.985)


def rates(level: float, machine: float = 1.0) -> list[float]:
    return [level * machine * m * own for m, own in zip(MACHINE, OWN, strict=True)]


def speeds(machine: float = 1.0) -> list[float]:
    return [200 * machine * m for m in MACHINE]


def stored(
    level: float = 100.0, machine: float = 1.0, work: str = WORK, **fields: object
) -> Session:
    found = session(rates(level, machine))
    known = {work: tuple(speeds(machine))}
    return replace(found, machine_speed=known, **fields)  # type: ignore[arg-type]


def measured(level: float, machine: float = 1.0, work: str = WORK) -> Measurement:
    return with_speeds(measurement(rates(level, machine)), speeds(machine), work)


def judged(now: Measurement, before: Baseline | None = None, rule: Rule = RULE) -> Judgement:
    return judge(SUBJECT, now, before or baseline(stored()), rule)
