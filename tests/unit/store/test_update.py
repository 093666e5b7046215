from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.errors import BaselineError, UpdateRefusedError
from pytest_dlperf.core.outcome import Confirmation
from pytest_dlperf.core.verdict import Judgement, KnownState, Verdict
from pytest_dlperf.store.baseline import commands, update
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import (
    CASE_ID,
    CONDITIONS,
    PLACE,
    applied,
    baseline,
    conditions,
    measurement,
    outcome,
    run,
    session,
    write,
)


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def stored(store: BaselineStore) -> Baseline:
    found = store.find(*PLACE)
    assert found is not None
    return found


def test_a_new_case_is_created_with_what_was_measured(store):
    change = write(store, outcome(35.5, 35.25, 35.75, verdict=Verdict.NO_BASELINE), reason="")
    assert (change.what, change.refused) == ("created", False)
    assert change.text == f"created   {CASE_ID}  35.5 samples/s (3 runs)"
    found = stored(store)
    assert found.conditions == CONDITIONS
    assert (found.unit, found.suite, found.source.kind) == ("samples", "tsm", "measured")
    assert found.history == ()
    (kept,) = found.sessions
    assert kept.runs == (35.5, 35.25, 35.75)
    assert kept.parent_runs == (20.0, 20.1)
    assert kept.speedup == pytest.approx(35.5 / 20.05, rel=1e-5)
    assert kept.peak_memory_bytes == (1024.0,) * 3
    assert kept.canary == {"matmul": 10.0}
    assert kept.estimates == {"median_step": kept.runs}
    assert (kept.time, kept.commit, kept.node) == ("2026-11-21T05:00:00Z", "0123abc", "node1")
    assert kept.software == {"torch": "2.13.0", "python": "3.11.7"}
    assert kept.machine == {"cpu": "Test CPU"}
    # One rank's loss fell by a half, the other's by a quarter, in every run
    assert kept.loss_fall == 0.375


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.NO_BASELINE])
def test_a_session_at_the_stored_level_is_appended(store, verdict):
    write(store, outcome(35.5), reason="")
    change = write(store, outcome(35.0, verdict=verdict, second=1), reason="")
    assert change.what == "appended"
    words = f"appended  {CASE_ID}  35 samples/s (1 run, 2 sessions)"
    assert change.text.startswith(f"{words}; all sessions are of one hour")
    assert [s.runs for s in stored(store).sessions] == [(35.5,), (35.0,)]
    assert stored(store).history == ()


def test_sessions_of_several_hours_are_not_said_to_be_of_one(store):
    write(store, outcome(35.5), reason="")
    later = replace(outcome(35.0), time="2026-11-21T06:00:00Z")
    change = write(store, later, reason="")
    assert change.text == f"appended  {CASE_ID}  35 samples/s (1 run, 2 sessions)"


def test_the_last_ten_sessions_stay(store):
    for second in range(13):
        write(store, outcome(35.0 + second / 100, second=second), reason="")
    kept = stored(store).sessions
    assert [s.time[-3:-1] for s in kept] == [f"{second:02}" for second in range(3, 13)]
    assert kept[-1].runs == (35.12,)


@pytest.mark.parametrize("verdict", [Verdict.IMPROVED, Verdict.REGRESSED, Verdict.INCOMPARABLE])
def test_a_new_level_replaces_the_sessions_and_the_old_ones_go_to_the_history(store, verdict):
    write(store, outcome(40.0), reason="")
    write(store, outcome(40.2, second=1), reason="")
    old = stored(store).sessions
    change = write(store, outcome(30.15, verdict=verdict, second=2), reason="new\n driver")
    assert change.what == "replaced"
    assert change.text == f"replaced  {CASE_ID}  40.2 -> 30.15 samples/s (-25.0 %): new driver"
    found = stored(store)
    assert [s.runs for s in found.sessions] == [(30.15,)]
    assert found.sessions[0].reason == "new\n driver"
    (level,) = found.history
    assert level.sessions == old
    assert (level.replaced, level.reason) == ("2026-11-21T05:00:02Z", "new\n driver")


@pytest.mark.parametrize("did", [Verdict.REGRESSED, Verdict.IMPROVED])
def test_what_the_machine_did_is_a_new_level_where_the_user_says_why(store, did):
    """Without a reason it shows how far the sessions of this machine differ."""
    write(store, outcome(40.0), reason="")
    stage = Confirmation(stored=Judgement(verdict=did, reason=""), same_code=True)
    passed = replace(outcome(20.0, verdict=Verdict.PASSED, second=1), confirmation=stage)
    assert write(store, passed, reason="").what == "appended"
    later = replace(outcome(20.1, verdict=Verdict.PASSED, second=2), confirmation=stage)
    assert write(store, later, reason="another board").what == "replaced"
    assert len(stored(store).sessions) == 1


def observe(store, found):
    return update.write(
        store, found, reason="", judge_again=lambda o, _: o.judgement, observe=True
    )


def test_what_observe_mode_sets_aside_pushes_no_other_session_out(store):
    for second in range(10):
        observe(store, outcome(35.0 + second / 100, second=second))
    level = stored(store).sessions
    for second in range(10, 25):
        change = observe(store, outcome(30.0, verdict=Verdict.REGRESSED, second=second))
    assert change.what == "appended"
    assert "30 samples/s (1 run; set aside as 'observed: regressed')" in change.text
    found = stored(store)
    assert found.level == level
    aside = [one for one in found.sessions if one.is_set_aside]
    assert [one.time[-3:-1] for one in aside] == [f"{second:02}" for second in range(15, 25)]
    observe(store, outcome(35.2, verdict=Verdict.PASSED, second=25))
    assert [one.runs for one in stored(store).level][-2:] == [(35.09,), (35.2,)]
    assert len(stored(store).level) == 10
    assert commands.list_rows(store)[0].throughput == 35.2


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.UNSTEADY])
def test_what_observe_mode_could_not_decide_is_set_aside(store, verdict):
    write(store, outcome(35.0), reason="")
    level, open_one = stored(store).level, outcome(33.0, verdict=verdict, second=1)
    assert observe(store, open_one).what == "appended"
    assert stored(store).level == level
    assert stored(store).sessions[1].reason == f"observed: {verdict}"
    assert write(store, open_one, reason="the same code").what == "appended"
    assert [one.runs for one in stored(store).level] == [(35.0,), (33.0,)]


def test_what_was_set_aside_can_be_accepted_as_a_level(store):
    write(store, outcome(35.0), reason="")
    slow = outcome(30.0, verdict=Verdict.REGRESSED, second=1)
    assert observe(store, slow).what == "appended"
    assert observe(store, slow).what == "unchanged"
    with pytest.raises(UpdateRefusedError, match="the verdict is regressed"):
        write(store, slow, reason="")
    assert write(store, slow, reason="new driver").what == "replaced"
    assert [(one.runs, one.reason) for one in stored(store).sessions] == [((30.0,), "new driver")]
    assert [one.runs for one in stored(store).history[0].sessions] == [(35.0,)]
    fast = outcome(40.0, verdict=Verdict.IMPROVED, second=2)
    observe(store, fast)
    assert write(store, fast, reason="").what == "replaced"


def test_a_known_slowdown_is_set_aside_as_one(store):
    write(store, outcome(35.0), reason="")
    judged = Judgement(verdict=Verdict.REGRESSED, reason="so", known=KnownState.KNOWN)
    observe(store, replace(outcome(30.0, second=1), judgement=judged))
    assert stored(store).sessions[1].reason == "observed: known"
    assert len(stored(store).level) == 1


def test_a_file_of_nothing_but_sessions_set_aside_is_nonsense(store):
    write(store, outcome(35.0), reason="")
    path = next(iter(store.all())).path
    path.write_text(path.read_text().replace('"reason": ""', '"reason": "observed: regressed"'))
    with pytest.raises(BaselineError, match="sessions: observe mode set all of them aside"):
        stored(store)


def test_the_anchor_is_the_first_accept_of_a_level_and_stays(store):
    for second in range(13):
        write(store, outcome(35.0, second=second), reason="")
    assert stored(store).anchor.time == "2026-11-21T05:00:00Z"
    assert stored(store).anchor not in stored(store).sessions
    write(store, outcome(45.0, verdict=Verdict.IMPROVED, second=20), reason="")
    assert stored(store).anchor == stored(store).sessions[0]


def test_a_release_can_be_made_the_anchor(store):
    write(store, outcome(35.0), reason="")
    release = outcome(34.8, second=1)
    for _ in range(2):  # once with the session, once when it is stored already
        update.write(store, release, reason="", judge_again=lambda o, _: o.judgement, anchor=True)
        assert stored(store).anchor == stored(store).sessions[1]
    assert len(stored(store).sessions) == 2


@pytest.mark.parametrize("seconds", [(4, 1, 3, 2, 0, 5), (0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)])
def test_sessions_are_in_the_order_in_which_they_were_measured(store, seconds):
    for second in seconds:
        change = write(store, outcome(35.0 + second, second=second), reason="")
        assert f"  {35 + second} samples/s (1 run" in change.text
    found = stored(store)
    assert [one.runs for one in found.sessions] == [(35.0 + second,) for second in range(6)]
    assert found.anchor == found.sessions[0]
    assert commands.list_rows(store)[0].throughput == 40.0


def test_the_ten_that_stay_are_the_newest(store):
    for second in (*range(5, 14), 2, 14):
        assert write(store, outcome(35.0, second=second), reason="").what != "unchanged"
    before = stored(store)
    assert [int(one.time[-3:-1]) for one in before.sessions] == list(range(5, 15))
    change = write(store, outcome(35.0, second=4), reason="")
    assert (change.what, change.refused) == ("unchanged", False)
    assert "older than the 10 newer sessions that are kept" in change.text
    assert stored(store) == before


def test_a_release_stays_the_anchor_whatever_is_older(store):
    write(store, outcome(35.0, second=3), reason="")
    release = outcome(34.8, second=5)
    update.write(store, release, reason="", judge_again=lambda o, _: o.judgement, anchor=True)
    write(store, outcome(35.1, second=1), reason="")
    assert [int(one.time[-3:-1]) for one in stored(store).sessions] == [1, 3, 5]
    assert stored(store).anchor == stored(store).sessions[2]


def test_a_session_of_no_stored_level_cannot_be_its_anchor(store):
    write(store, outcome(30.0), reason="")
    write(store, outcome(40.0, verdict=Verdict.IMPROVED, second=1), reason="")
    before = stored(store)
    with pytest.raises(UpdateRefusedError, match="cannot be its anchor"):
        update.write(
            store, outcome(30.0), reason="", judge_again=lambda o, _: o.judgement, anchor=True
        )
    assert stored(store) == before


def test_older_results_replace_no_newer_level_without_a_reason(store):
    write(store, outcome(35.0, second=5), reason="")
    faster = outcome(45.0, verdict=Verdict.IMPROVED, second=3)
    with pytest.raises(UpdateRefusedError, match=r"replace newer sessions.*reason=TEXT"):
        write(store, faster, reason="")
    assert write(store, faster, reason="the older one, indeed").what == "replaced"


def test_results_of_before_the_level_changed_are_none_of_it_without_a_reason(store):
    write(store, outcome(45.0), reason="")
    write(store, outcome(35.0, verdict=Verdict.REGRESSED, second=5), reason="a larger head")
    with pytest.raises(UpdateRefusedError, match="before the stored level replaced another"):
        write(store, outcome(35.5, second=3), reason="")
    assert len(stored(store).sessions) == 1


def test_a_file_of_before_there_were_anchors_gets_the_oldest_session_that_is_left(store):
    write(store, outcome(35.0), reason="")
    store.write(replace(stored(store), anchor=None))
    write(store, outcome(35.1, second=1), reason="")
    assert stored(store).anchor == stored(store).sessions[0]


def test_levels_pile_up_in_the_order_in_which_they_were_left(store):
    write(store, outcome(30.0), reason="")
    write(store, outcome(40.0, verdict=Verdict.IMPROVED, second=1), reason="")
    write(store, outcome(50.0, verdict=Verdict.IMPROVED, second=2), reason="fused")
    assert [level.sessions[0].runs for level in stored(store).history] == [(30.0,), (40.0,)]
    assert [level.reason for level in stored(store).history] == ["", "fused"]


@pytest.mark.parametrize("verdict", [Verdict.UNSTEADY, Verdict.INCONCLUSIVE])
def test_an_open_session_is_appended_with_its_reason_only(store, verdict):
    write(store, outcome(35.5), reason="")
    found = outcome(35.0, verdict=verdict, second=1)
    with pytest.raises(UpdateRefusedError, match=f"the verdict is {verdict}"):
        write(store, found, reason="")
    change = write(store, found, reason="as steady as it gets")
    assert change.what == "appended"
    assert [s.reason for s in stored(store).sessions] == ["", "as steady as it gets"]


def test_changed_conditions_replace_whatever_the_verdict():
    found = outcome(35.5, measured=measurement(35.5, conditions=conditions(parameter_count=7)))
    after, what = applied(baseline(), found, reason="a smaller head")
    assert what == "replaced"
    assert after.conditions == conditions(parameter_count=7)
    assert after.history[0].sessions == baseline().sessions


def test_a_changed_unit_is_shown_with_both_units_and_no_percentage(store):
    write(store, outcome(35.5), reason="")
    clips = measurement(71.0, unit="clips", conditions=conditions(unit="clips"))
    change = write(
        store, outcome(verdict=Verdict.INCOMPARABLE, measured=clips, second=1), reason="clips now"
    )
    assert change.text == f"replaced  {CASE_ID}  35.5 samples/s -> 71 clips/s: clips now"
    assert stored(store).unit == "clips"


def test_tolerance_and_facts_written_by_hand_survive_every_update():
    before = baseline(tolerance=0.05, facts={"remark": "shared switch"})
    for verdict in (Verdict.PASSED, Verdict.IMPROVED):
        after, _ = applied(before, outcome(verdict=verdict))
        assert (after.tolerance, after.facts) == (0.05, {"remark": "shared switch"})


def test_the_same_session_twice_is_stored_once(store):
    write(store, outcome(), reason="")
    path = next(iter(store.all())).path
    before = path.read_bytes()
    change = write(store, outcome(), reason="again")
    assert change.what == "unchanged"
    assert change.text == f"unchanged {CASE_ID}  this session is stored already"
    assert path.read_bytes() == before


def test_a_session_of_the_history_is_not_stored_again(store):
    write(store, outcome(30.0), reason="")
    write(store, outcome(40.0, verdict=Verdict.IMPROVED, second=1), reason="")
    assert write(store, outcome(30.0), reason="").what == "unchanged"
    assert [s.runs for s in stored(store).sessions] == [(40.0,)]


def test_stored_rates_have_six_digits(store):
    write(store, outcome(35.123456789, 12345678.9), reason="")
    assert stored(store).sessions[0].runs == (35.1235, 12345700.0)


def test_what_is_unknown_is_absent(store):
    runs = [run(35.5, memory=None, canary={}, losses=((0.0, 1.0),)) for _ in range(2)]
    bare = outcome(measured=measurement(runs=runs, parent_throughputs=()))
    write(store, bare, reason="")
    (kept,) = stored(store).sessions
    assert kept.peak_memory_bytes == ()
    assert kept.canary == {}
    assert (kept.speedup, kept.parent_runs, kept.loss_fall) == (None, (), None)


def test_the_canary_is_the_median_over_the_runs_that_have_it(store):
    canaries = [{"matmul": 1.0}, {"matmul": 9.0, "copy": 5.0}, {"matmul": 3.0}]
    runs = [run(35.5, canary=canary) for canary in canaries]
    write(store, outcome(measured=measurement(runs=runs)), reason="")
    assert stored(store).sessions[0].canary == {"matmul": 3.0, "copy": 5.0}


def test_a_pinned_machine_class_names_the_folder(store):
    found = outcome()
    assert found.environment is not None
    pinned = replace(found, environment=replace(found.environment, machine_class="ci-large"))
    write(store, pinned, reason="")
    assert store.find("ci-large", "tsm", CASE_ID) is not None
    assert store.find(*PLACE) is None


def test_an_update_touches_no_other_file(store):
    other = baseline(case_id="tsm.tiny-torch-fp32-bs2-1n1c")
    store.write(other)
    path = next(iter(store.all())).path
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    write(store, outcome(), reason="")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert len(list(store.all())) == 2


def test_a_broken_file_is_not_updated_even_with_a_reason(store):
    write(store, outcome(), reason="")
    path = next(iter(store.all())).path
    values = json.loads(path.read_text(encoding="utf-8"))
    values["sessions"][0]["runs"] = [0]
    path.write_text(json.dumps(values), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(BaselineError, match=r"sessions\[0\]\.runs\[0\]"):
        write(store, outcome(second=1), reason="because")
    assert path.read_bytes() == before


def test_apply_without_a_measurement_is_refused():
    for nothing in (replace(outcome(), measurement=None), replace(outcome(), environment=None)):
        with pytest.raises(UpdateRefusedError, match="nothing was measured"):
            applied(baseline(session()), nothing)


def test_what_was_judged_against_another_level_is_judged_again(store):
    write(store, outcome(35.5), reason="")
    before = stored(store)
    asked = []

    def judge_again(found, baseline):
        asked.append(baseline)
        return Judgement(verdict=Verdict.REGRESSED, reason="slower than what is stored now")

    stale = outcome(30.0, second=1)
    with pytest.raises(UpdateRefusedError, match="the verdict is regressed"):
        update.write(store, stale, reason="", judge_again=judge_again)
    assert stored(store) == before
    gone = replace(stale, baseline_sessions=(session(1.0),))
    other = BaselineStore(store.root / "none")
    with pytest.raises(UpdateRefusedError, match="the verdict is regressed"):
        update.write(other, gone, reason="", judge_again=judge_again)
    assert asked.pop() is None
    fresh = replace(stale, baseline_sessions=before.sessions)
    assert update.write(store, fresh, reason="", judge_again=judge_again).what == "appended"
    assert asked == [before]
