"""Annotations of GitHub Actions."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.session.terminal import github_actions
from tests.helpers.hostile_text import hostile, judged

COMMAND = re.compile(r"::(error|warning) ((?:\w+=[^,:]*,?)*)::([^\r\n]*)")


def test_failed_cases_are_errors_and_open_ones_warnings_at_their_tests() -> None:
    outcomes = [
        judged(Verdict.PASSED, 0.0, suite="fine"),
        judged(Verdict.INCONCLUSIVE, -0.01, suite="open", reason="100 % of\nit"),
        judged(Verdict.REGRESSED, -0.05, suite="slow"),
    ]
    assert github_actions.annotations_of(outcomes, lambda _: ("perf/a,b:c.py", 12)) == [
        "::error file=perf/a%2Cb%3Ac.py,line=12,title=slow-torch-amp-bs16-1n8g%3A regressed::"
        "so it is",
        "::warning file=perf/a%2Cb%3Ac.py,line=12,title=open-torch-amp-bs16-1n8g%3A inconclusive"
        "::100 %25 of%0Ait",
    ]


def test_a_hostile_sentence_is_one_command() -> None:
    made = github_actions.annotations_of(hostile(), lambda _: None)
    assert len(made) == 3
    for command in made:
        found = COMMAND.fullmatch(command)
        assert found is not None
        assert all(ord(c) >= 32 for c in command)
        assert "训练吞吐率" in unquote(found[3])


def test_ten_of_a_type_are_shown_the_worst_first_and_the_last_counts_the_others() -> None:
    outcomes = [judged(Verdict.REGRESSED, -i / 1000, suite=f"s{i}") for i in range(1, 101)]
    made = github_actions.annotations_of(outcomes, lambda _: None)
    assert len(made) == 10
    assert "title=s100-" in made[0]
    assert made[-1] == (
        "::error title=pytest-dlperf::and 91 more cases; the summary of this job has them all"
    )
    assert len(github_actions.annotations_of(outcomes[:10], lambda _: None)) == 10


def test_a_long_message_is_cut_and_says_so() -> None:
    [command] = github_actions.annotations_of(
        [judged(Verdict.REGRESSED, -0.1, reason="吞" * 5000)], lambda _: None
    )
    assert len(command.encode()) < 4096
    assert command.endswith("(cut; the log has all of it)")
