"""Words follow from findings alone: they name options that there are, and are made again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from functools import cache
from itertools import product
from typing import Final

import pytest

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.finding_codes import CODES, COMPARED
from pytest_dlperf.core.option_names import command_options
from pytest_dlperf.core.outcome import outcome_from_json, outcome_to_json
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.budget import cut_short
from pytest_dlperf.judge.decide import decide
from pytest_dlperf.judge.evidence import Kind
from pytest_dlperf.judge.evidence.logs import LogRun, LogSide
from pytest_dlperf.judge.evidence.numbers import Numbers
from pytest_dlperf.judge.expected import with_known
from pytest_dlperf.judge.two_stages import (
    decided_by_packages,
    decided_by_pairs,
    judgement_without_pairs,
    same_code_judgement,
)
from pytest_dlperf.judge.verdict import (
    judge_logs,
    judge_number_pairs,
    judge_numbers,
    judge_pairs,
    judgement_by,
    plain_judgement,
    reworded,
    with_finding,
    with_findings,
    without_findings,
)
from pytest_dlperf.judge.words.options import PYTEST, Options
from pytest_dlperf.judge.words.sentence import words_of
from tests.helpers.judge_builders import (
    CONDITIONS,
    around,
    baseline,
    case,
    judged_by,
    measurement,
    session,
)
from tests.helpers.report_builders import case as reported_case
from tests.helpers.report_builders import measured

pytestmark = pytest.mark.newest

GPU: Final = case("1n8g")
RULE: Final = Rule(tolerance=0.05)
ARM: Final = "1a2b3c4"
ESTIMATORS: Final = ("mean_of_rates", "median_of_rates", "time_weighted")
RATES: Final = (Verdict.IMPROVED, Verdict.PASSED, Verdict.REGRESSED, Verdict.INCONCLUSIVE)
METRICS: Final = (
    "anchor", "speedup", "peak_memory", "whole_window", "cpu_seconds", "step_p95", "graph_breaks",
)  # fmt: skip
FIVE: Final = baseline(
    *(
        session(around(x), canary={"matmul": 50.0}, memory=10**9, parent=around(14))
        for x in (99.5, 99.8, 100, 100.2, 100.5)
    )
)


def compared(verdict: Verdict, change: float, needed: int | None = None) -> Comparison:
    return Comparison(
        now=100 * (1 + change), before=100.0, change=change, sees=0.03, tolerance=0.05,
        interval=(change - 0.02, change + 0.02), verdict=verdict, runs_needed=needed,
    )  # fmt: skip


def by_comparisons() -> Iterator[Judgement]:
    """Yield judgements of every verdict on the rate, and on each metric beside it."""
    count = Comparison(now=4, before=3, change=1 / 3, tolerance=0.0, verdict=Verdict.REGRESSED)
    for kind, verdict in product((Kind.SESSIONS, Kind.PAIRS), RATES):
        than = "stored" if kind is Kind.SESSIONS else ARM
        for change, needed in product((-0.1, -0.01, 0.0, 0.1), (None, 20)):
            yield judged_by(compared(verdict, change, needed), kind=kind, than=than)
        for problem in ("disturbed", "drift", "batch-unchecked"):
            yield judged_by(compared(verdict, -0.1), kind=kind, than=than, problem=problem)
        for name, other in product(METRICS, (Verdict.REGRESSED, Verdict.INCONCLUSIVE)):
            beside = {name: count if name == "graph_breaks" else compared(other, 0.2, 20)}
            for problem in ("", "drift"):
                rate = compared(verdict, -0.01)
                yield judged_by(rate, kind=kind, than=than, problem=problem, **beside)
    yield judged_by(
        compared(Verdict.REGRESSED, -0.1), peak_memory=compared(Verdict.REGRESSED, 0.2),
        differences=("unit: images, was tokens", "data: real, was synthetic"),
    )  # fmt: skip


def by_sessions() -> Iterator[Judgement]:
    for level, alone, memory in product((60, 90, 97, 100, 110), (14, 20), (10**9, 2 * 10**9)):
        now = measurement(
            around(level), parent=around(alone), memory=memory, canary={"matmul": 50.0}
        )
        yield judge(GPU, now, FIVE, RULE)
    yield judge(GPU, measurement(around(85), canary={"matmul": 42.5}), FIVE, RULE)
    yield judge(GPU, measurement(around(20), canary={"matmul": 42.5}), FIVE, RULE)
    yield judge(GPU, measurement(around(92)), FIVE, replace(RULE, tolerance=0.15))
    yield judge(GPU, measurement(around(90)), None, RULE)
    other = replace(CONDITIONS, launcher="mpi", threads_per_rank=9)
    yield judge(GPU, replace(measurement(around(90)), conditions=other), FIVE, RULE)
    yield judge(GPU, measurement(around(100), parent=around(1)), FIVE, RULE)


def by_pairs() -> Iterator[Judgement]:
    for change, problem in product((-0.1, -0.02, 0.0, 0.1), ("", "drift", "batch-unchecked")):
        now = measurement(around(100 * (1 + change), 0.02), problem=problem)
        yield judge_pairs(GPU, now, measurement(around(100, -0.02)), RULE, against="v1")


def log(level: float, **fields: object) -> LogSide:
    rates = tuple(around(level))
    runs = tuple(
        LogRun(
            throughput=x, estimates=dict.fromkeys(ESTIMATORS, x), data_wait_share=1 - level / 130
        )
        for x in rates
    )
    side = LogSide(name="log", unit="images", sessions=(rates,), runs=runs)
    return replace(side, **fields)  # type: ignore[arg-type]


def by_logs() -> Iterator[Judgement]:
    for level in (60, 97, 100, 110):
        yield judge_logs(log(100), log(level), RULE)
    for code in ("loss-not-finite", "precision-mismatch", "clocks-disagree"):
        problem = Problem(code=code, message="it was so")
        yield judge_logs(log(100), log(90, problems=(problem,)), RULE)
    yield judge_logs(log(100, world_size=4), log(90, world_size=8), RULE)
    yield judge_logs(log(100, unit="tokens"), log(90), RULE)
    stalled = tuple(
        LogRun(throughput=x, estimates=dict(zip(ESTIMATORS, (100.0, 100.0, x), strict=True)))
        for x in around(75)
    )
    yield judge_logs(log(100), log(75, runs=stalled), RULE)


def by_numbers() -> Iterator[Judgement]:
    before = Numbers(name="a", unit="images", sessions=(tuple(around(100)),))
    for level, spread in product((60, 98, 100, 120), (0.005, 0.2)):
        now = Numbers(name="b", unit="images", sessions=(tuple(around(level, spread)),))
        yield judge_numbers(before, now, RULE)
        yield judge_number_pairs(before, now, RULE)
    yield judge_numbers(before, replace(before, unit="tokens"), RULE)


def by_stages() -> Iterator[Judgement]:
    torch = "torch 2.12.1 became 2.13.0"
    same = plain_judgement(Verdict.PASSED, "no file that ranks import differs")
    grown = {"peak_memory": compared(Verdict.REGRESSED, 0.2)}
    for verdict in RATES:
        for stored in (
            judged_by(compared(verdict, -0.1)),
            judged_by(compared(verdict, -0.1), **grown),
            judged_by(compared(verdict, -0.1), problem="disturbed"),
        ):
            yield same_code_judgement(stored, against=ARM)
            yield judgement_without_pairs(
                stored, "no commit is known", details=["it failed", "so"]
            )
            for pairs in (*(judged_by(compared(v, -0.03), kind=Kind.PAIRS) for v in RATES), same):
                for environment, unknown in (((), ""), ((torch,), ""), ((), "packages unknown")):
                    yield decided_by_pairs(
                        stored, pairs, against=ARM, environment=environment, unknown=unknown
                    )
                yield decided_by_packages(
                    stored, same, pairs, changed=torch, environment=(), undo="pip install torch"
                )


def later() -> Iterator[Judgement]:
    """Yield judgements with what is learnt after the judge."""
    known = Known(change=-0.1, issue="#1", until="2027-01-31")
    for change, day in product((-0.2, -0.1, 0.0), (date(2027, 1, 1), date(2028, 1, 1))):
        verdict = Verdict.REGRESSED if change else Verdict.PASSED
        yield with_known(judged_by(compared(verdict, change)), known, day)
    for looked, verdict in product((True, False), RATES):
        yield cut_short(judged_by(compared(verdict, -0.1)), "45 min", looked=looked)
    yield with_finding(judged_by(compared(Verdict.PASSED, 0.0)), "below-anchor")
    yield plain_judgement(Verdict.ERROR, "rank 1 ended with 1")


SAMPLES: Final = (
    by_comparisons, by_sessions, by_pairs, by_logs, by_numbers, by_stages, later,
)  # fmt: skip
samples = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.__name__)
Sample = Callable[[], Iterator[Judgement]]


@cache
def judgements(sample: Sample) -> tuple[Judgement, ...]:
    return tuple(sample())


def test_findings_are_as_the_table_of_codes_says() -> None:
    found = [judgement for sample in SAMPLES for judgement in judgements(sample)]
    for finding in (finding for judgement in found for finding in judgement.findings):
        if finding.code in {verdict.value for verdict in Verdict} - {"unsteady"}:
            continue  # words alone
        meaning = CODES[finding.code]
        assert finding.weight in meaning.weights
        assert meaning.has_metric == (finding.metric not in {"", "throughput"})
        allowed = {*meaning.figures, *(COMPARED if meaning.is_compared else ())}
        assert set(finding.figures) <= allowed, finding.code


def option_names(judgement: Judgement) -> set[str]:
    """Return the options that are named; a whole command of another name has its own."""
    text = judgement.text.replace("dlperf baselines accept --anchor", "")
    return set(re.findall(r"--[a-z][a-z-]*", text))


def test_the_samples_have_every_verdict_and_most_codes() -> None:
    found = [judgement for sample in SAMPLES for judgement in judgements(sample)]
    assert {judgement.verdict for judgement in found} == set(Verdict) - {Verdict.NOT_RUN}
    assert {finding.code for judgement in found for finding in judgement.findings} >= {
        "faster", "within-tolerance", "slower", "undecided", "worse", "open", "excused",
        "conditions-differ", "work-unchecked", "disturbed", "machine-moved", "unsteady",
        "machine-explains-nothing", "estimators-disagree", "nothing-stored", "training-failed",
        "data-wait", "not-reported", "pairs-decided", "environment-changed", "packages-unknown",
        "packages-decided", "same-code", "equal-code", "no-pairs", "arm-failed", "budget-spent",
        "known-slowdown",
    }  # fmt: skip
    assert set.union(*map(option_names, found)) >= {
        "--dlperf-tolerance", "--dlperf-against", "--dlperf-max-runs", "--dlperf-reason",
        "--update-baselines",
    }  # fmt: skip


@samples
def test_a_command_names_no_option_that_is_not_its_own(sample: Sample) -> None:
    for judgement in judgements(sample):
        for own in ({"--tolerance"}, set()):
            found = reworded(judgement, options=Options(names=command_options(frozenset(own))))
            assert option_names(found) <= own, found.text
            assert found.verdict is judgement.verdict
            assert found.findings == judgement.findings


def test_a_command_names_the_options_that_it_has() -> None:
    judgement = judged_by(compared(Verdict.INCONCLUSIVE, -0.01), kind=Kind.PAIRS, than=ARM)
    assert option_names(judgement) == {"--dlperf-tolerance"}
    own = Options(names=command_options(frozenset({"--tolerance", "--max-runs"})))
    assert option_names(reworded(judgement, options=own)) == {"--tolerance"}
    needed = judged_by(compared(Verdict.INCONCLUSIVE, -0.01, 20), kind=Kind.PAIRS, than=ARM)
    found = reworded(needed, options=own)
    assert "; --max-runs=20 would decide it" in found.reason
    assert option_names(found) == {"--tolerance", "--max-runs"}


@samples
@pytest.mark.parametrize(
    "options",
    [
        PYTEST,
        Options(names=command_options(frozenset({"--tolerance"}))),
        Options(names=command_options(frozenset())),
    ],
)
def test_no_sentence_has_a_gap_where_an_option_is_lacking(
    sample: Sample, options: Options
) -> None:
    for judgement in judgements(sample):
        for line in reworded(judgement, options=options).text.split("\n"):
            assert line
            assert line == line.strip(" ;:,")
            assert not re.search(r"\s\s|[;:,] *[;:,]|\( *\)|, or *($|;)| with *($|;)", line), line


@samples
def test_words_and_verdict_follow_from_the_findings(sample: Sample) -> None:
    for judgement in judgements(sample):
        assert judgement.findings
        words = words_of(judgement.findings, PYTEST)
        assert (judgement.reason, judgement.details) == words
        assert judgement.verdict is decide(judgement.findings)


@samples
def test_words_of_findings_read_back_are_those_written(sample: Sample) -> None:
    for judgement in judgements(sample):
        outcome = measured(reported_case(), 90.0, judgement=judgement)
        written = json.loads(json.dumps(outcome_to_json(outcome), allow_nan=False))
        found = outcome_from_json(written).judgement
        assert found.findings == judgement.findings
        assert words_of(found.findings, PYTEST) == words_of(judgement.findings, PYTEST)
        assert reworded(found, options=PYTEST) == found
        assert (found.verdict, found.reason, found.details) == (
            judgement.verdict, judgement.reason, judgement.details,
        )  # fmt: skip


@samples
def test_a_further_finding_follows_the_others_and_the_verdict_is_decided_again(
    sample: Sample,
) -> None:
    for judgement in judgements(sample):
        noted = with_finding(judgement, "stored", text="its session was stored")
        assert noted.findings[:-1] == judgement.findings
        assert noted.findings[-1] == Finding(
            code="stored", weight=Weight.NOTE, figures={"text": "its session was stored"}
        )
        assert noted.verdict is judgement.verdict
        assert noted.reason == f"{judgement.reason}\nits session was stored"
        assert noted.details == judgement.details
        assert without_findings(noted, {"stored"}) == judgement
        failed = with_finding(judgement, "failed", Weight.ERROR, says="it failed")
        assert failed.verdict is Verdict.ERROR
        assert (failed.throughput, failed.metrics) == (judgement.throughput, judgement.metrics)


def test_what_is_not_known_is_no_figure() -> None:
    judgement = with_finding(
        judged_by(compared(Verdict.PASSED, 0.0)), "stored", text="so", node="", count=None, size=0
    )
    assert judgement.findings[-1].figures == {"text": "so", "size": 0}


def test_a_judgement_of_a_former_file_keeps_its_words() -> None:
    """It has no findings: its words are one."""
    for verdict in Verdict:
        former = Judgement(verdict=verdict, reason="so it was\nand so", details=("at length",))
        assert reworded(former, options=PYTEST) is former
        assert without_findings(former, {"stored"}) is former
        found = with_finding(former, "stored", text="it was stored")
        assert found.verdict is verdict
        assert found.reason == "so it was\nand so\nit was stored"
        assert found.details == ("at length",)


def test_a_first_session_that_is_stored_passes_and_what_the_update_did_is_all_that_is_said() -> (
    None
):
    first = judge(GPU, measurement(around(100)), None, RULE)
    assert first.verdict is Verdict.NO_BASELINE
    found = with_finding(first, "stored", Weight.STORED, text="its first session was stored")
    assert found.verdict is Verdict.PASSED
    assert (found.reason, found.details) == ("its first session was stored", ())
    # What forbids to judge is not lifted by storing it
    moved = judged_by(compared(Verdict.PASSED, 0.0), problem="disturbed")
    assert with_finding(moved, "stored", Weight.STORED, text="so").verdict is moved.verdict


def test_several_findings_are_added_at_once() -> None:
    judgement = judged_by(compared(Verdict.PASSED, 0.0))
    notes = [Finding(code="stored", weight=Weight.NOTE, figures={"text": one}) for one in "ab"]
    found = with_findings(judgement, *notes)
    assert found.findings == (*judgement.findings, *notes)
    assert found.reason == f"{judgement.reason}\na\nb"


def test_a_rate_that_is_no_number_is_in_no_figure() -> None:
    found = [judgement for sample in SAMPLES for judgement in judgements(sample)]
    for finding in (finding for judgement in found for finding in judgement.findings):
        numbers = [value for value in finding.figures.values() if isinstance(value, float)]
        assert all(map(math.isfinite, numbers)), finding


def test_a_code_of_another_version_is_said_as_it_is() -> None:
    for weight in (Weight.DOUBT, Weight.DIFFERENT):
        strange = Finding(code="moon-phase", weight=weight)
        said = with_finding(judgement_by((strange,)), "stored", text="stored")
        assert said.reason == "moon-phase: this version has no words for it\nstored"
