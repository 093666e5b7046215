"""The summary in the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.outcome import Against, Outcome
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.report import pull_request, terminal
from pytest_dlperf.report.printable import columns
from tests.helpers.hostile_text import hostile, judged
from tests.helpers.report_builders import case, confirmed, measured, unmeasured

pytestmark = pytest.mark.newest


def row(outcome: Outcome) -> list[str]:
    lines = terminal.render([outcome], width=200)
    return lines[1].plain.split()


def texts(*outcomes: Outcome, width: int = 80, verbosity: int = 0) -> list[str]:
    told = [replace(one, command=f"pytest {one.case.id}") for one in outcomes]
    made = terminal.render(told, width=width, verbosity=verbosity)
    return [line.plain for line in made]


def table(*outcomes: Outcome, width: int = 80, verbosity: int = 0) -> list[str]:
    lines = texts(*outcomes, width=width, verbosity=verbosity)
    return lines[: lines.index("")]


def test_rate_and_baseline_of_pairs_are_of_one_estimator_and_differ_by_the_change() -> None:
    found = Comparison(now=98.0, before=100.0, change=-0.02, interval=(-0.03, -0.01), sees=0.01)
    judged_ = Judgement(verdict=Verdict.REGRESSED, reason="slower", throughput=found)
    stored = measured(case(), 101.0, judgement=judged_)
    pairs = measured(case(), 101.0, judgement=judged_, against=Against(name="v1", kind="ref"))
    assert row(pairs)[1:5] == ["98.00", "samples/s", "100.0", "-2.0"]
    assert row(stored)[1:5] == ["101.0", "samples/s", "100.0", "-2.0"]
    open_ = measured(case(), 101.0, against=Against(name="v1", kind="ref"))
    assert row(open_)[1:4] == ["101.0", "samples/s", "--"]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
@pytest.mark.parametrize("verbosity", [0, 1])
def test_the_table_fits_and_has_rate_change_and_verdict(width: int, verbosity: int) -> None:
    outcomes = [
        judged(Verdict.REGRESSED, -0.05, suite="deeplabv3p"),
        judged(Verdict.PASSED, 0.0, suite="a_suite_of_a_rather_long_name"),
        unmeasured(case(), Verdict.NO_BASELINE, "nothing is stored"),
    ]
    lines = table(*outcomes, width=width, verbosity=verbosity)
    assert max(map(columns, lines)) <= width
    assert all(any(one.case.id in line for line in lines) for one in outcomes)
    told = "\n".join(lines)
    for figure in ("95.00 samples/s", "-5.0 %", "regressed", "no-baseline"):
        assert figure in told
    head, _, left_out = told.replace("\n", " ").partition("(a wider terminal shows ")
    for column in ("baseline", "90 % interval", "sees", "speedup", "memory", "runs"):
        assert (column in left_out) != (f" {column} " in head.partition("verdict")[0])
    assert left_out or width > 80


def test_an_id_is_beside_its_figures_where_there_is_room() -> None:
    outcome = judged(Verdict.REGRESSED, -0.05)
    [line] = [line for line in table(outcome) if outcome.case.id in line]
    assert line.endswith("regressed")
    long = judged(Verdict.REGRESSED, -0.05, suite="a_suite_" * 8)
    lines = table(long)
    assert lines[1] == long.case.id
    assert lines[2].startswith("  ")
    assert lines[2].endswith("regressed")


def test_colours_are_those_of_the_verdict() -> None:
    lines = terminal.render(
        [
            judged(Verdict.REGRESSED, -0.05, suite="slow"),
            judged(Verdict.PASSED, 0.0, suite="fine"),
            unmeasured(case(suite="open"), Verdict.NO_BASELINE, "nothing is stored"),
        ],
        width=80,
    )
    colours = {line.tail: line.colour for line in lines if line.colour}
    assert colours == {"regressed": "red", "passed": "green", "no-baseline": "yellow"}


def test_quiet_is_one_line_and_verbose_has_the_runs() -> None:
    slow, fine = judged(Verdict.REGRESSED, -0.05), measured(case(suite="fine"), 99.0, 101.0, 100.0)
    assert texts(slow, fine, verbosity=-1) == ["2 cases: 1 passed, 1 regressed"]
    assert "  runs: 99.00 101.0 100.0 samples/s" in texts(slow, fine, verbosity=1)
    assert not any("runs: " in line for line in texts(slow, fine))


def test_what_pairs_cost_is_said_above_the_verdicts() -> None:
    of = [measured(case(layout=f"1n{count}g"), 100.0, 101.0, 102.0) for count in (1, 2, 4)]
    outcomes = [confirmed(of[0]), confirmed(of[1]), of[2]]
    lines = [line.plain for line in terminal.render(outcomes, width=100)]
    assert lines[-2] == "2 of 3 cases needed pairs: 6 pairs, 4 min"
    assert pull_request.render(outcomes).count(f"\n{lines[-2]}.\n") == 1
    # Those of another session took no time of this one
    taken = [replace(one, taken_from="r.json") for one in outcomes]
    assert "pairs" not in terminal.render(taken, width=100)[-2].plain
    verbose = [line.plain for line in terminal.render(outcomes, width=100, verbosity=1)]
    assert sum("pairs: runs: 100.0 101.0 102.0" in line for line in verbose) == 2


@pytest.mark.once
def test_ten_thousand_cases_are_a_screen_and_what_is_left_out_is_said() -> None:
    outcomes = [
        judged(verdict, -0.05, suite=f"suite_{verdict.name}_{i}", reason=f"number {i}")
        for i in range(5000)
        for verdict in (Verdict.PASSED, Verdict.REGRESSED)
    ]
    worst = judged(Verdict.REGRESSED, -0.5, suite="worst")
    lines = texts(*outcomes, worst)
    assert len(lines) < 300
    assert "(not listed: 5000 passed, 4961 others; -v lists all)" in lines
    assert any(line.startswith("worst-") and line.endswith("regressed") for line in lines)
    assert lines[-1] == "10001 cases: 5000 passed, 5001 regressed"
    assert sum("suite_PASSED" in line for line in texts(*outcomes, worst, verbosity=1)) == 5000


def test_many_cases_of_one_sentence_are_named_up_to_a_bound() -> None:
    outcomes = [
        unmeasured(case(suite=f"s{i}"), Verdict.NO_BASELINE, "nothing is stored")
        for i in range(30)
    ]
    lines = texts(*outcomes)
    assert "... and 20 more; -v shows all" in lines
    assert sum(line.endswith(": no-baseline") for line in lines) == 10


def test_nothing_of_a_sentence_steers_the_terminal() -> None:
    for verbosity in (-1, 0, 1):
        for line in texts(*hostile(), verbosity=verbosity):
            assert all(ord(c) >= 32 and not 127 <= ord(c) < 160 for c in line), line
            assert "\u202e" not in line
            line.encode()


@pytest.mark.parametrize(
    # The sentence of a case that passed is not shown
    ("verdict", "notes"),
    [(Verdict.INCOMPARABLE, 1), (Verdict.PASSED, 2)],
)
def test_a_note_does_not_repeat_the_sentence(verdict: Verdict, notes: int) -> None:
    disturbed = Problem(code="disturbed", message="others used 0.7 CPU s of host n1")
    drift = Problem(code="drift", message="it became slower")
    outcome = measured(case(), 100.0, verdict=verdict, reason=f"{disturbed.message}; x")
    assert outcome.measurement is not None
    measurement = replace(outcome.measurement, problems=(disturbed, drift))
    lines = texts(replace(outcome, measurement=measurement))
    assert sum(line.startswith("note: ") for line in lines) == notes
    assert any(disturbed.message in line for line in lines)
