"""Explanations in the terminal, on the page, in the comment and in JSON."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.outcome import (
    Explanation,
    OperatorChange,
    Outcome,
    PartChange,
    outcome_from_json,
    outcome_to_json,
)
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import pull_request, terminal
from pytest_dlperf.report.page.explanation_section import explanation_section
from tests.helpers.report_builders import case, measured


def part(name: str, before: float | None, after: float, *, named: bool = False) -> PartChange:
    difference = None if before is None else after - before
    share = None if difference is None else difference / 40
    return PartChange(part=name, before_ms=before, after_ms=after, difference_ms=difference,
                      share=share, named=named)  # fmt: skip


FOUND = Explanation(
    sentence="of 40 ms more a step: exposed communication +33",
    rank=1,
    before_ms=60.0,
    after_ms=100.0,
    agrees=True,
    parts=(
        part("exposed communication", 2, 35, named=True),
        part("compute", 50, 56),
        *(part(f"other {number}", 1, 1) for number in range(5)),
    ),
    operators=(
        OperatorChange(path="<i>head", operator="aten::fill_", part="compute", before_calls=0,
                       after_calls=3, before_ms=0, after_ms=6, difference_ms=6, named=True),
    ),
    traces=("/w/explain1/trace.json.gz",),
)  # fmt: skip


def outcome(found: Explanation | None = FOUND) -> Outcome:
    return replace(measured(case(), 100.0, verdict=Verdict.REGRESSED), explanation=found)


def shown(found: Explanation | None = FOUND) -> str:
    return "\n".join(line.plain for line in terminal.render([outcome(found)], width=120))


def test_the_terminal_has_the_parts_the_operators_and_the_trace():
    lines = [" ".join(line.split()) for line in shown().splitlines()]
    assert "exposed communication 2.00 35.00 +33.00 82.5 %" in lines
    assert "compute * 50.00 56.00 +6.00 15.0 %" in lines
    assert "added: <i>head: aten::fill_ 0.00 6.00 +6.00 0 to 3" in lines
    assert "trace: /w/explain1/trace.json.gz" in lines
    assert any("a profiled step of rank 1: 60.00 to 100.00 ms" in line for line in lines)


def test_a_profile_that_failed_is_a_note():
    assert "note: tsm-torch-amp-bs16-1n8g: it failed" in shown(Explanation(note="it failed"))
    assert "profiled" not in shown(None)


def test_of_now_alone_there_are_no_differences():
    found = Explanation(rank=0, after_ms=70, parts=(part("compute", None, 70),))
    assert "compute -- 70.00 -- --" in " ".join(shown(found).split())


def test_the_page_draws_the_parts_and_escapes_names():
    page = explanation_section(FOUND)
    assert page.count("<rect x=") == 2 * len(FOUND.parts)
    assert "&lt;i&gt;head: aten::fill_" in page
    assert "<i>" not in page
    assert "http" not in page
    assert explanation_section(None) == ""


def test_the_comment_has_five_parts():
    text = pull_request.render([outcome()])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    parts = rows[rows.index(next(row for row in rows if "difference ms" in row)) :]
    assert len(parts) == 2 + 5
    assert "+33.00" in parts[2]
    assert "difference ms" not in pull_request.render([outcome(None)])


def test_an_explanation_survives_json_and_results_of_before_are_read():
    values = outcome_to_json(outcome())
    assert outcome_from_json(values).explanation == FOUND
    values = outcome_to_json(outcome())
    del values["explanation"]
    assert outcome_from_json(values).explanation is None
