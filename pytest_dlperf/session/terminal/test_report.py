"""What the report of a perf test has: the outcome of its case, however the test ended.

A test that is skipped, fails or is waived before its case has a verdict gives it an outcome as
well, so that every report of the session has it, and the session's policy decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from pytest_dlperf.core.outcome import Outcome, outcome_to_json
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.confirmation import pair_count
from pytest_dlperf.report.printable import shown
from pytest_dlperf.report.sort_order import Standing, standing
from pytest_dlperf.session.case_items import selected_of
from pytest_dlperf.session.case_record import planned_tests
from pytest_dlperf.session.measurer import Measurer
from pytest_dlperf.session.no_verdict import outcome_without_verdict
from pytest_dlperf.session.session import Session

#: Attributes of test reports, in plain JSON types: they cross xdist. The id of the case that
#: an item runs, and its outcome once it has one.
CASE, ATTRIBUTE = "dlperf_case", "dlperf_outcome"
_PREFIX: Final = "dlperf_"


def mark_report(
    report: pytest.TestReport, item: pytest.Item, session: Session, measurer: Measurer
) -> None:
    """Put the outcome of a perf test onto its report, with the verdict's place in JUnit.

    That is the report of its call, or of a setup that did not pass. Reports of other tests stay
    as they are.
    """
    selected = selected_of(item)
    if selected is None:
        return
    setattr(report, CASE, selected.case.id)
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    attempt = session.records[selected.case.id].attempt
    outcome = attempt if report.when == "call" else None
    if outcome is None:
        outcome = measurer.judged(selected.case)  # a rerun takes no verdict back
    if outcome is None:
        outcome = _without_verdict(report, item, session)
    passed = report.passed
    outcome = put_outcome(report, outcome, strict=session.settings.strict)
    if passed and report.failed and not outcome.interrupted:
        report.longrepr = f"{report.longrepr}\n(the test went on after dlperf.run() had failed)"
    # The report's own copy is what other plugins see; JUnit reads that of the teardown's report,
    # which is made of the item's. An attempt before this one has left its own there.
    item.user_properties[:] = [*without_ours(item.user_properties), *properties(outcome)]


def _without_verdict(report: pytest.TestReport, item: pytest.Item, session: Session) -> Outcome:
    """Return the outcome of a case whose test ended without ``dlperf.run()`` having returned."""
    [planned] = planned_tests([item])
    if report.skipped:
        waived = getattr(report, "wasxfail", None)
        why = f"xfail: {waived}" if waived is not None else _reason_of_skip(report)
        words = "did not reach dlperf.run()" if waived is not None else "was skipped"
        return outcome_without_verdict(
            planned, session, f"its test {words} ({why})", interrupted=False
        )
    if report.passed:
        why = "its test never called dlperf.run()"
    else:
        where = "before it began" if report.when == "setup" else "before dlperf.run()"
        why = f"its test failed {where} ({_last_line(report)})"
    return outcome_without_verdict(planned, session, why, verdict=Verdict.ERROR)


def _reason_of_skip(report: pytest.TestReport) -> str:
    longrepr: Any = report.longrepr
    reason = longrepr[2] if isinstance(longrepr, tuple) else longrepr
    return str(reason).removeprefix("Skipped: ").strip() or "no reason was given"


def _last_line(report: pytest.TestReport) -> str:
    """Return what pytest's own summary shows of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    return text.splitlines()[0] if crash is not None and text else text.rpartition("\n")[2]


def put_outcome(report: pytest.TestReport, outcome: Outcome, *, strict: bool = False) -> Outcome:
    """Put ``outcome`` onto the report of its test, with the verdict's place in JUnit; return it.

    xfail waives a failed outcome, but not under ``strict``.
    """
    if hasattr(report, "wasxfail"):
        if report.skipped and not strict:
            outcome = replace(outcome, failed=False)
        elif outcome.failed or (report.passed and standing(outcome) is not Standing.PASSED):
            del report.wasxfail
    setattr(report, ATTRIBUTE, outcome_to_json(outcome))
    report.user_properties = [*without_ours(report.user_properties), *properties(outcome)]
    sentence = f"{outcome.judgement.title}: {shown(outcome.judgement.reason)}"
    if outcome.failed and not report.failed:
        report.outcome = "failed"
        report.longrepr = sentence
    elif report.passed and standing(outcome) is Standing.APART:
        path, line, _ = report.location
        report.outcome = "skipped"
        report.longrepr = (str(path), line or 0, f"Skipped: {sentence}")
    return outcome


def without_ours(properties: Sequence[tuple[str, object]]) -> list[tuple[str, object]]:
    """Return the properties of a report that are not of a case's outcome."""
    return [one for one in properties if not one[0].startswith(_PREFIX)]


def properties(outcome: Outcome) -> list[tuple[str, object]]:
    """Return scalars for JUnit: more would put megabytes into each test case."""
    measurement, judgement = outcome.measurement, outcome.judgement
    values: dict[str, object] = {
        "dlperf_case": outcome.case.id,
        "dlperf_verdict": judgement.verdict.value,
        "dlperf_code": judgement.code or None,
        "dlperf_codes": " ".join(judgement.codes) or None,
        "dlperf_reason": judgement.reason,
        "dlperf_change": judgement.throughput.judged_change,
        "dlperf_baseline": judgement.throughput.before,
        "dlperf_sees": judgement.throughput.sees,
        "dlperf_tolerance": judgement.throughput.tolerance,
        "dlperf_taken_from": outcome.taken_from or None,
    }
    if judgement.throughput.interval is not None and judgement.throughput.is_judged:
        low, high = judgement.throughput.interval
        values |= {"dlperf_interval_low": low, "dlperf_interval_high": high}
    if outcome.against is not None:
        values["dlperf_against"] = outcome.against.name
    if (confirmation := outcome.confirmation) is not None:
        values["dlperf_confirmed_against"] = confirmation.commit or None
        values["dlperf_pairs"] = pair_count(confirmation)
        values["dlperf_change_to_stored"] = confirmation.stored.throughput.judged_change
    if measurement is not None:
        values |= {
            "dlperf_throughput": outcome.judged_throughput,
            "dlperf_unit": f"{measurement.unit}/s",
            "dlperf_runs": len(measurement.runs),
            "dlperf_speedup": measurement.speedup,
            "dlperf_peak_memory_bytes": measurement.peak_memory_bytes,
        }
    return [(name, value) for name, value in values.items() if value is not None]


def status_of(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Return the category of a verdict that was neither passed nor failed; else None."""
    values: Any = getattr(report, ATTRIBUTE, None)
    if values is None or not report.skipped or hasattr(report, "wasxfail"):
        return None
    judgement = values["judgement"]
    verdict = str(judgement.get("known") or judgement["verdict"])
    return verdict, verdict[0].upper(), (verdict.upper(), {"yellow": True})
