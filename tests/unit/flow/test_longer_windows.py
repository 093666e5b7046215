"""Windows of pairs in lock-step that are made longer than the protocol's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import MeasuredRun
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.lock_step import with_longer_window
from tests.helpers.judge_builders import case, run


def pair(now_s: float, before_s: float) -> dict[str, MeasuredRun]:
    """Two runs whose warm-up is slow, with measured steps of so many seconds."""
    return {
        side: MeasuredRun(
            summary=replace(
                run(100.0), step_seconds=(9.0,) * 50 + (step_s,) * 1000, turns=(50, 500)
            ),
            facts=RunFacts(),
        )
        for side, step_s in (("now", now_s), ("before", before_s))
    }


def of(layout: str, **fields: object) -> Case:
    return replace(case(layout), protocol=Protocol(**fields))  # type: ignore[arg-type]


def test_a_window_of_steps_that_are_short_is_five_seconds_of_the_faster_arm():
    longer = with_longer_window(of("1n1c"), pair(0.02, 0.0125))
    assert longer is not None
    assert longer.protocol.window == (50, 450)
    assert longer.protocol.lengthened_from == 150
    assert longer.protocol.asked_iterations == 150
    assert of("1n1c").protocol.asked_iterations == 150


def test_steps_that_data_come_to_in_bursts_are_as_long_as_their_mean():
    bursts = {
        side: measured._replace(
            summary=replace(
                measured.summary,
                data_wait_share=0.8,
                step_seconds=(9.0,) * 50 + (*(0.0001,) * 7, 0.1) * 125,
            )
        )
        for side, measured in pair(0.02, 0.02).items()
    }
    longer = with_longer_window(of("1n1c"), bursts)
    assert longer is not None
    assert longer.protocol.window == (50, 50 + 398)


def test_a_longer_window_leaves_most_of_the_timeout():
    longer = with_longer_window(of("1n1c", timeout_s=16.0), pair(0.02, 0.0125))
    assert longer is not None
    assert longer.protocol.window == (50, 250)


def test_a_window_has_a_thousand_iterations_at_most():
    longer = with_longer_window(of("1n1c"), pair(1e-5, 1e-5))
    assert longer is not None
    assert longer.protocol.window == (50, 1050)


@pytest.mark.parametrize("step_s", [0.04, 2.0])
def test_a_window_of_nearly_that_length_stays(step_s: float):
    assert with_longer_window(of("1n1c"), pair(step_s, step_s)) is None


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (of("1n1c"), True),
        (of("1n2c", iterations=700, warmup=200), True),  # a protocol that has a name
        (of("1n1g"), False),  # whose runs differ by less than a percent
        (of("1n1c", iterations=60, warmup=20), False),  # as its marker says
        (of("1n1c", declared_window=(20, 60)), False),  # as the command line says
    ],
)
def test_a_window_that_was_given_is_not_made_longer(subject: Case, *, expected: bool):
    assert (with_longer_window(subject, pair(0.001, 0.001)) is not None) is expected
