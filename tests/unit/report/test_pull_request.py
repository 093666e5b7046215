"""The comment on a pull request, and the summary of a job."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.gate import marker
from tests.helpers.hostile_text import HOSTILE, hostile, judged
from tests.helpers.report_builders import ENVIRONMENT, case, unmeasured

pytestmark = pytest.mark.newest

LIMIT = 65_536


def test_its_first_line_is_stable_and_what_did_not_pass_is_on_top() -> None:
    one = judged(Verdict.PASSED, 0.001, suite="fine")
    text = pull_request.render([one, judged(Verdict.REGRESSED, -0.05, suite="slow")])
    assert text.splitlines()[0] == marker()
    assert text.splitlines()[1] == "### ❌ Training performance: 2 cases: 1 passed, 1 regressed"
    assert text.splitlines()[0] == pull_request.render([one]).splitlines()[0]
    slow, details, fine = (text.index(x) for x in ("| slow", "<details>", "| fine"))
    assert slow < details < fine
    assert "| -5.0 % | \\[-6.0, -4.0\\] % | 95.00 samples/s | 100.0 | 1.2 % |" in text
    assert ENVIRONMENT.machine_class in text


def test_the_worst_is_first() -> None:
    text = pull_request.render(
        [
            judged(Verdict.INCONCLUSIVE, -0.2, suite="open"),
            judged(Verdict.REGRESSED, -0.03, suite="slow"),
            unmeasured(case(suite="broken"), Verdict.ERROR, "boom", failed=True),
            judged(Verdict.REGRESSED, -0.3, suite="slowest"),
        ]
    )
    places = [text.index(f"| {name}-") for name in ("slowest", "slow", "broken", "open")]
    assert places == sorted(places)


def test_what_comes_from_outside_is_text_and_calls_nobody() -> None:
    text = pull_request.render(hostile())
    outside_code = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    assert "```" not in outside_code.replace("\\`", "")
    for forbidden in (
        "<script",
        "@octocat",
        "#12",
        "GH-3",
        "!4",
        "b**",
        "](http",
        "\x1b",
        "\x9b",
    ):
        assert not re.search(rf"(?<!\\){re.escape(forbidden)}", outside_code), forbidden
    assert "\\<script\\>" in outside_code
    assert all(ord(c) >= 32 or c == "\n" for c in text)
    assert "训练吞吐率 שלום" in text
    # The one fence of each sentence is longer than what the sentence has.
    assert text.count("````text\n") == HOSTILE.count("```\n") * text.count("\n````\n") > 0
    assert text.count("<details>") == outside_code.count("</details>") == 1
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}


@pytest.mark.once
def test_ten_thousand_cases_fit_in_a_comment_that_says_what_it_cut() -> None:
    outcomes = [
        judged(verdict, -0.05, suite=f"suite_{verdict.name}_{i}", reason=f"number {i} 训练吞吐率")
        for i in range(5000)
        for verdict in (Verdict.REGRESSED, Verdict.PASSED)
    ]
    text = pull_request.render(outcomes)
    assert LIMIT * 0.9 < len(text.encode()) < LIMIT
    rows = len(re.findall(r"^\| suite", text, re.MULTILINE))
    cut = [int(count) for count in re.findall(r"\*(\d+) further cases are cut here", text)]
    assert len(cut) == 2
    assert rows + sum(cut) == 10_000
    sentences = len(re.findall(r"^\*\*suite", text, re.MULTILINE))
    [more] = re.findall(r"\*(\d+) further sentences are cut here", text)
    assert sentences + int(more) == 5000
    assert text.rstrip().endswith("</details>")


@pytest.mark.parametrize("limit", range(4000, 20_000, 371))
def test_a_summary_is_never_larger_than_its_room(limit: int) -> None:
    outcomes = [
        judged(verdict, -0.05, suite=f"suite_{verdict.name}_{i}", reason=f"number {i}\n训练吞吐率")
        for i in range(40)
        for verdict in (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.PASSED)
    ]
    assert len(pull_request.summary(outcomes, limit_bytes=limit).encode()) <= limit


def test_one_sentence_of_many_cases_is_shown_once() -> None:
    outcomes = [
        unmeasured(case(suite=f"s{i}"), Verdict.NO_BASELINE, "nothing is stored")
        for i in range(30)
    ]
    text = pull_request.render(outcomes)
    assert text.count("nothing is stored") == 1
    assert "and 20 more: no-baseline." in text


def test_a_session_without_outcomes_has_a_comment() -> None:
    assert "### ⚠️ Training performance: 0 cases\n" in pull_request.render([])


def test_an_error_that_xfail_waives_is_no_pass() -> None:
    waived = replace(unmeasured(case(), Verdict.ERROR, "boom"), failed=False)
    text = pull_request.render([waived])
    assert "### ⚠️ Training performance: 1 case: 1 error\n" in text
    assert "⚠️ error" in text
    assert "✅" not in text
