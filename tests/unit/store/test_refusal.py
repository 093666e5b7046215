"""What is never stored, and what is stored with a reason only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UpdateRefusedError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.store.baseline import update
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.update import conditions_changed, refusal
from tests.helpers.baseline_builders import (
    CASE,
    CASE_ID,
    CONDITIONS,
    PLACE,
    baseline,
    conditions,
    measurement,
    outcome,
    write,
)

WINDOW = (50, 150)
ALWAYS = "no reason overrides this"
GIVE_REASON = "--dlperf-reason=TEXT"


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def judged(verdict: Verdict, reason: str) -> Outcome:
    return outcome(judgement=Judgement(verdict=verdict, reason=reason))


def measured(**fields: object) -> Outcome:
    return outcome(measured=measurement(35.5, **fields))


NEVER: list[tuple[Outcome, str]] = [
    (
        judged(Verdict.ERROR, "rank 1: ValueError: boom\nand its log"),
        "the verdict is error (rank 1: ValueError: boom)",
    ),
    (judged(Verdict.NOT_RUN, "no paddle here"), "the verdict is not-run (no paddle here)"),
    (replace(outcome(), measurement=None), "nothing was measured"),
    (replace(outcome(), measurement=replace(measurement(35.5), runs=())), "nothing was measured"),
    (replace(outcome(), environment=None), "the machine is not recorded"),
    (measured(problem="cut-short"), "it was so."),
    (measured(inject=0.05), "its steps were made 5 % longer by --dlperf-inject"),
    (measured(inject=0.0001), "its steps were made 0.01 % longer by --dlperf-inject"),
    (
        measured(conditions=conditions(window=(10, 30))),
        "iterations 10 to 30 were measured and the case declares 50 to 150, so leave "
        "--dlperf-iterations and --dlperf-warmup out",
    ),
]


@pytest.mark.parametrize(("found", "why"), NEVER, ids=[why[:40] for _, why in NEVER])
def test_what_no_reason_makes_a_baseline(store, found, why):
    for reason in ("", "we know what we do"):
        sentence = refusal(found, reason=reason, dirty=False, protocol_window=WINDOW)
        assert sentence == f"{CASE_ID}: {why}; {ALWAYS}"
        with pytest.raises(UpdateRefusedError) as caught:
            write(store, found, reason=reason)
        assert str(caught.value) == sentence
    assert not store.root.exists()


NEED_REASON: list[tuple[Outcome, str]] = [
    (outcome(verdict=Verdict.REGRESSED), "the verdict is regressed"),
    (outcome(verdict=Verdict.UNSTEADY), "the verdict is unsteady"),
    (outcome(verdict=Verdict.INCOMPARABLE), "the verdict is incomparable"),
    (outcome(verdict=Verdict.INCONCLUSIVE), "the verdict is inconclusive"),
    (measured(problem="disturbed"), "it was so"),
    (outcome(dirty=True), "tracked files outside the baselines folder are modified"),
    (
        outcome(commit="", checkout_problem="fatal: dubious"),
        "git does not say which commit was measured, or whether tracked files are modified (fatal",
    ),
]


@pytest.mark.parametrize(("found", "why"), NEED_REASON, ids=[why for _, why in NEED_REASON])
def test_what_is_stored_with_a_reason_only(store, found, why):
    for reason in ("", " \n\t"):
        with pytest.raises(UpdateRefusedError) as caught:
            write(store, found, reason=reason)
        assert str(caught.value).startswith(f"{CASE_ID}: {why}")
        assert GIVE_REASON in str(caught.value)
        assert ALWAYS not in str(caught.value)
    assert store.find(*PLACE) is None
    write(store, found, reason="the new driver")
    assert store.find(*PLACE).sessions[0].reason == "the new driver"


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.IMPROVED, Verdict.NO_BASELINE])
def test_what_needs_no_reason(store, verdict):
    found = outcome(verdict=verdict)
    assert refusal(found, reason="", dirty=False, protocol_window=WINDOW) is None
    assert write(store, found, reason="").what == "created"


def test_every_verdict_has_its_rule():
    ruled = {found.judgement.verdict for found, _ in NEVER + NEED_REASON}
    free = {Verdict.IMPROVED, Verdict.NO_BASELINE}
    assert ruled | free == set(Verdict)


def test_other_problems_than_a_disturbance_need_no_reason(store):
    assert write(store, measured(problem="drift"), reason="").what == "created"


def test_observe_mode_begins_no_level_with_what_was_not_shown(store):
    """There is none yet from which it could be set aside."""
    for verdict in update.OBSERVED - {Verdict.IMPROVED}:
        found = outcome(verdict=verdict)
        with pytest.raises(UpdateRefusedError, match=f"the verdict is {verdict}"):
            update.write(
                store, found, reason="", judge_again=lambda o, _: o.judgement, observe=True
            )
    assert not list(store.all())


def test_a_refused_update_leaves_the_stored_file(store):
    write(store, outcome(), reason="")
    path = next(iter(store.all())).path
    before = path.read_bytes()
    for found in (outcome(30.0, verdict=Verdict.REGRESSED, second=1), measured(inject=0.1)):
        with pytest.raises(UpdateRefusedError):
            write(store, found, reason="")
    assert path.read_bytes() == before


def test_the_number_of_runs_may_differ_from_the_protocol(store):
    write(store, outcome(35.5), reason="")
    change = write(store, outcome(*[35.5] * 9, second=1), reason="")
    assert change.what == "appended"
    assert [len(s.runs) for s in store.find(*PLACE).sessions] == [1, 9]


def test_a_case_that_declares_a_short_window_is_stored_with_it(store):
    short = replace(CASE, protocol=Protocol(iterations=30, warmup=10))
    found = replace(measured(conditions=conditions(window=(10, 30))), case=short)
    assert write(store, found, reason="").what == "created"


def test_a_window_of_the_command_line_is_refused_although_it_was_measured(store):
    replaced = Protocol(iterations=30, warmup=10, declared_window=WINDOW)
    found = measured(conditions=conditions(window=(10, 30)))
    with pytest.raises(UpdateRefusedError, match="the case declares 50 to 150"):
        write(store, replace(found, case=replace(CASE, protocol=replaced)), reason="x")


def test_conditions_that_changed_since_the_judgement_need_a_reason(store):
    store.write(baseline(conditions=conditions(threads_per_rank=4, dtype="bfloat16")))
    with pytest.raises(UpdateRefusedError) as caught:
        write(store, outcome(), reason="")
    assert "dtype: float32, was bfloat16, threads_per_rank: 1, was 4" in str(caught.value)
    assert GIVE_REASON in str(caught.value)
    assert store.find(*PLACE).conditions.threads_per_rank == 4
    assert write(store, outcome(), reason="fewer threads").what == "replaced"
    assert store.find(*PLACE).conditions == CONDITIONS


def test_equal_conditions_or_none_are_no_change():
    assert conditions_changed(baseline(), measurement(35.5), CASE_ID) is None
    assert conditions_changed(None, measurement(35.5), CASE_ID) is None
