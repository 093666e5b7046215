"""Where readers and programs find the code of what decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.page.findings_section import findings_section
from pytest_dlperf.session.terminal import github_actions
from pytest_dlperf.session.terminal.test_report import put_outcome
from tests.helpers.report_builders import case, decided, measured

FAILED = replace(decided(measured(case(), 100.0)), failed=True)
FORMER = measured(case(), 100.0, verdict=Verdict.REGRESSED, failed=True)


def report_of(outcome: Outcome) -> pytest.TestReport:
    report = pytest.TestReport("t.py::t", ("t.py", 1, "t"), {}, "passed", None, "call")
    put_outcome(report, outcome)
    return report


def test_junit_has_the_code_that_decided_and_all_that_count() -> None:
    report = report_of(FAILED)
    found = dict(report.user_properties)
    assert found["dlperf_code"] == "worse:peak_memory"
    assert found["dlperf_codes"] == "worse:peak_memory within-tolerance"
    assert str(report.longrepr).startswith("regressed (worse:peak_memory): so it is")


def test_what_has_no_findings_has_no_code() -> None:
    report = report_of(FORMER)
    assert not {"dlperf_code", "dlperf_codes"} & dict(report.user_properties).keys()
    assert str(report.longrepr).startswith("regressed: so it is")
    assert findings_section(FORMER.judgement) == ""


def test_an_annotation_has_it_as_its_title() -> None:
    [command] = github_actions.annotations_of([FAILED], lambda _: None)
    assert command.startswith(
        f"::error title={FAILED.case.id}%3A regressed (worse%3Apeak_memory)::"
    )


def test_a_comment_has_it_beside_the_verdict() -> None:
    text = pull_request.render([FAILED])
    assert text.count("regressed (worse:peak") == 2  # in the table, and before the sentence


def test_the_page_has_a_row_for_each_finding_and_what_decided_first() -> None:
    text = findings_section(FAILED.judgement)
    assert text.index("worse:peak_memory") < text.index("within-tolerance")
    assert "change +25.0 %" in text


def test_sentences_and_markup_of_figures_stay_out_of_the_table() -> None:
    figures = {
        "text": "a sentence",
        "fields": "<b>",
        "runs": 5,
        "adaptive": True,
        "long": "x" * 80,
    }
    finding = Finding(code="conditions-differ", weight=Weight.DIFFERENT, figures=figures)
    judgement = Judgement(verdict=Verdict.INCOMPARABLE, reason="so", findings=(finding,))
    text = findings_section(judgement)
    assert "a sentence" not in text
    assert "xxx" not in text
    assert "fields &lt;b&gt;, runs 5, adaptive yes" in text
