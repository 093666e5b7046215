"""What is known of the cases of a session, from net collection and from test reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_dlperf.session.case_record import (
    PLANNED,
    CaseRecords,
    Planned,
    keep_planned,
    kept_planned,
)
from tests.helpers.report_builders import case, measured

FIRST, SECOND, THIRD = CASES = [case(precision=name) for name in ("fp32", "amp", "bf16")]


TESTS = [
    Planned(
        node_id=f"test_net.py::test_net[{net.id}]",
        location=("test_net.py", 3, "test_net"),
        case=net,
        folder="/tests",
    )
    for net in CASES
]


def test_a_test_is_reached_by_net_outcome_or_by_net_end():
    records = CaseRecords()
    records.plan(TESTS)
    records.report(measured(SECOND, 10.0))
    records[THIRD.id].has_ended = True
    assert records.planned == TESTS
    assert [test.case.id for test in records.unreached] == [FIRST.id]


def test_outcomes_are_in_the_order_of_the_first_attempts_and_the_last_attempt_counts():
    records = CaseRecords()
    records.plan(TESTS)
    retried, once = measured(SECOND, 10.0), measured(FIRST, 20.0)
    assert [records.report(outcome) for outcome in (retried, once)] == [True, True]
    again = replace(retried, failed=True)
    assert records.report(again)
    assert not records.report(again)
    assert records.outcomes == [again, once]


def test_a_test_without_a_case_has_no_record():
    records = CaseRecords()
    records.plan(TESTS)
    assert records.record_of_test("test_net.py::test_plain") is None
    record = records.record_of_test(TESTS[0].node_id)
    assert record is records[FIRST.id]


def test_a_worker_announces_net_tests_once():
    worker, controller = CaseRecords(), CaseRecords()
    worker.to_announce(TESTS)
    reports: list[Any] = [SimpleNamespace(), SimpleNamespace()]
    for report in reports:
        worker.announce(report)
        controller.take_announced(report)
    assert [hasattr(report, PLANNED) for report in reports] == [True, False]
    assert controller.planned == TESTS


def test_what_is_kept_for_the_controller_is_read_again(tmp_path: Path):
    assert kept_planned(tmp_path) == []
    keep_planned(TESTS, tmp_path)
    assert kept_planned(tmp_path) == TESTS


def test_why_cases_were_left_out_is_said_once_a_case():
    records = CaseRecords()
    for _ in range(2):
        records[FIRST.id].left_out = "no GPU"
    records[SECOND.id].left_out = "no GPU"
    assert list(records.left_out) == ["no GPU", "no GPU"]
