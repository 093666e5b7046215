"""Explanations in the terminal, on the page, in the comment and in JSON."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_dlperf.core.outcome import (
    Explanation,
    ModuleTime,
    Outcome,
    outcome_from_json,
    outcome_to_json,
)
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import pull_request, terminal
from pytest_dlperf.report.page.explanation_section import explanation_section
from pytest_dlperf.report.page.icicle import icicle
from tests.helpers.explanations import FOUND, part
from tests.helpers.report_builders import case, measured


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
    bars, _, _ = page.partition("</svg>")
    assert bars.count("<rect x=") == 2 * len(FOUND.parts)
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


def test_memory_stacks_launches_and_ranks_are_in_the_terminal_and_on_the_page():
    text = " ".join(shown().split())
    page = explanation_section(FOUND)
    for words in (
        "kernels and copies a step: 40 to 43",
        "exposed communication by rank: rank 0 3.00 to 43.00 ms, rank 1 2.00 to 2.00 ms; "
        "the others wait for rank 1",
        "Allocated at the peak of three steps: 1024 MiB to 2048 MiB",
        "train.py(7): step: aten::cat",
    ):
        assert words in text
        assert words in page
    assert "step > <lambda> 1.00 9.00" in text
    assert "step &gt; &lt;lambda&gt;" in page


def test_kernels_that_changed_are_beside_each_other():
    operator = replace(
        FOUND.operators[0], before_kernels=("sm80",), after_kernels=("cutlass", "x")
    )
    text = shown(replace(FOUND, operators=(operator,)))
    assert "kernels of <i>head: aten::fill_: sm80; now cutlass, x" in text


def test_the_icicle_has_each_module_below_its_own():
    drawn = icicle(FOUND.modules)
    boxes = dict(re.findall(r"<title>([^<]*): [^<]*</title><rect x=\"[\d.]+\" y=\"(\d+)\"", drawn))
    assert boxes["operators"] == "0"
    assert {boxes[name] for name in ("forward", "backward", "optimizer")} == {"20"}
    assert boxes["body"] == "40"
    assert boxes["body.0"] == boxes["body.&lt;1&gt;"] == "60"
    fills = dict(re.findall(r"<title>([^<]*): [^<]*</title>[^>]*fill=\"(#\w+)\"", drawn))
    assert fills["body.0"] != fills["body.&lt;1&gt;"]
    assert "<title>body.&lt;1&gt;: 20.00 ms to 30.00 ms (+10.00 ms)</title>" in drawn
    assert "<script" not in drawn
    assert icicle(()) == ""
    assert icicle((ModuleTime(path="", before_ms=1, after_ms=1),)) == "", "there are no modules"
