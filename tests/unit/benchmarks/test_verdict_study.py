"""The data of the verdict benchmark spread as they say; tallies add up; the table is whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from verdict_rules import load
from verdict_study import table
from verdict_study.data import CASES, MOST_RUNS, STORED_RUNS
from verdict_study.published import published
from verdict_study.recorded import recordings
from verdict_study.simulation import NOISE, Noise, Simulation, seconds
from verdict_study.tally import Tally, interval
from verdict_study.trial import (
    EQUAL_INTERLEAVED,
    EQUAL_STORED,
    STORED,
    USUAL,
    Margins,
    suites,
    try_ours,
    try_peers,
)

pytestmark = pytest.mark.once

MARGINS = Margins(tolerance=0.02, min_effect=0.005, alpha=0.05)
QUIET = Simulation(level="quiet", truths=(0.0, 0.02, 0.03, 0.05))


@pytest.mark.parametrize("level", NOISE)
def test_each_level_of_the_simulation_spreads_as_it_says(level: str) -> None:
    noise = NOISE[level]
    calm = Noise(
        session_sd=noise.session_sd,
        run_sd=noise.run_sd,
        iteration_sd=noise.iteration_sd,
        autocorrelation=noise.autocorrelation,
        spikes=0.0,
    )
    logs = np.log(seconds(calm, np.random.default_rng(1), (600, 20)))
    rho = noise.autocorrelation
    steps = logs - logs.mean(axis=2, keepdims=True)
    lag = (steps[..., 1:] * steps[..., :-1]).mean() / (steps**2).mean()
    assert lag == pytest.approx(rho, abs=0.03)
    assert logs[..., 0].std() == pytest.approx(logs[..., -1].std(), rel=0.05), "not stationary"
    # Variance of the mean of 100 iterations that remember, then of 20 runs.
    of_mean = noise.iteration_sd**2 * (1 + rho) / (1 - rho) / 100
    runs = logs.mean(axis=2)
    within = runs.var(axis=1, ddof=1).mean()
    assert within == pytest.approx(noise.run_sd**2 + of_mean, rel=0.05)
    between = runs.mean(axis=1).var(ddof=1) - within / 20
    assert between == pytest.approx(noise.session_sd**2, rel=0.2)


def test_spikes_are_as_many_as_it_says_and_only_slow() -> None:
    still = Noise(session_sd=0, run_sd=0, iteration_sd=0, autocorrelation=0.5, spikes=0.03)
    found = seconds(still, np.random.default_rng(2), (10, 20))
    assert found.min() == pytest.approx(0.1)
    assert (found > 0.1).mean() == pytest.approx(0.03, abs=0.005)


def test_a_suite_depends_on_seed_and_number_alone() -> None:
    [one], [again] = suites(QUIET, 1, range(3, 4)), list(suites(QUIET, 1, range(4)))[3:]
    [other] = suites(QUIET, 2, range(3, 4))
    assert len(one) == CASES
    assert (one[5].now[0.0] == again[5].now[0.0]).all()
    assert (one[5].now[0.0] != other[5].now[0.0]).all()


def test_a_slowdown_is_a_share_of_throughput() -> None:
    [suite] = suites(QUIET, 1, range(1))
    case = suite[0]
    assert case.now[0.05] == pytest.approx(case.now[0.0] / 0.95)
    assert case.after[0.05] == pytest.approx(case.after[0.0] / 0.95)
    assert len(case.now[0.0]) == len(case.before[0.0]) == MOST_RUNS
    assert [len(session) for session in case.history] == [STORED_RUNS] * 5


def test_a_slowdown_of_five_per_cent_is_found_at_typical_noise() -> None:
    typical = Simulation(level="typical", truths=(0.0, 0.05))
    found = try_ours(typical, MARGINS, 1, range(4), 4)
    stored = found[STORED, STORED]
    assert stored.suites == 4
    assert stored.count(0.05) == 4 * CASES
    rate = stored.rate(0.05, "regressed")
    assert rate is not None
    assert rate[0] > 0.7
    unchanged = stored.rate(0.0, "regressed")
    assert unchanged is not None
    assert unchanged[0] < 0.05


def test_peers_get_what_their_use_says() -> None:
    costs = {EQUAL_STORED: 7, EQUAL_INTERLEAVED: 4}
    found = try_peers(Simulation(level="quiet", truths=(0.0,)), costs, 1, range(1))
    name = "Mann-Whitney, runs (benchstat)"
    runs = {use: set(found[name, use].runs) for use in (USUAL, *costs)}
    assert runs == {USUAL: {5}, EQUAL_STORED: {7}, EQUAL_INTERLEAVED: {8}}
    assert {rule for rule, _ in found} == {rule.name for rule in load()[0]}


def _record(folder: Path) -> Path:
    """Write recordings whose runs differ in their seconds, and a report's repeats."""
    (folder / "torch" / "quiet").mkdir(parents=True)
    for name, rounds in (("rec_quiet", 22), ("rec_shared", 16), ("rec_contended", 40)):
        lines = [
            json.dumps({"round": number, "slow": slow, "it": [9.0] * 50 + [number + part] * 100})
            for number in range(1, rounds + 1)
            for slow, part in ((0.03, 0.3), (0, 0.0), (0.05, 0.5), (0, 0.1))
        ]
        lines = lines[:-2] if name == "rec_shared" else lines  # the last round is not whole
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    arms = [("seqA_A", 0.0)] * 10
    arms += [("ilv_A", 0.0), ("ilv_B3", 0.03), ("ilv_A2", 0.0), ("ilv_B5", 0.05)] * 10
    for number, (label, inject) in enumerate(arms, start=1):
        for rank in range(2):
            run = {"inject": inject, "per": [9.0] * 50 + [number + 0.5 * rank] * 100}
            path = folder / "torch" / "quiet" / f"{number:03}_{label}.r{rank}.json"
            path.write_text(json.dumps(run), encoding="utf-8")
    repeats = [{"runs": [10.0, 10.1, 9.9 + index / 100]} for index in range(30)]
    (folder / "repeated_runs.json").write_text(json.dumps(repeats), encoding="utf-8")
    return folder


def test_no_recorded_run_is_on_both_sides(tmp_path: Path) -> None:
    for recording in recordings(_record(tmp_path)):
        for case in recording.suite(np.random.default_rng(3)):
            stored = {float(run[0]) for session in case.history for run in session}
            before, now = case.before[0.0][:, 0], case.now[0.0][:, 0]
            assert len(stored) == STORED_RUNS * len(case.history) > 0
            assert len(set(before)) == len(set(now)) == MOST_RUNS
            assert not stored & {*before, *now}, recording.name
            assert not set(before) & set(now), recording.name
            assert all(session.shape == (STORED_RUNS, 100) for session in case.history)


def test_pairs_are_of_one_round(tmp_path: Path) -> None:
    quiet, shared, contended, torch = recordings(_record(tmp_path))
    assert [len(one.rounds) for one in (quiet, shared, contended, torch)] == [22, 15, 40, 10]
    for case in quiet.suite(np.random.default_rng(4)):
        rounds = np.floor(case.before[0.0][:, 0])
        for arm, part in ((0.03, 0.3), (0.05, 0.5)):
            assert case.after[arm][:, 0] == pytest.approx(rounds + part)
        assert sorted(np.diff(np.sort(rounds))) == [1] * 9, "not rounds in a row"
    # An iteration is as long as that of the slower rank.
    assert torch.earlier[0][0] == 1.5


def test_published_runs_are_drawn_from_their_own_configuration(tmp_path: Path) -> None:
    data = published(_record(tmp_path), (0.0, 0.02))
    for case in data.suite(np.random.default_rng(5)):
        assert [session.shape for session in case.history] == [(STORED_RUNS, 1)]
        assert len(set(case.now[0.0].ravel()) | set(case.before[0.0].ravel())) <= 3
    rules = try_peers(data, {EQUAL_STORED: 9, EQUAL_INTERLEAVED: 3}, 1, range(1))
    assert not [name for name, _ in rules if "iterations" in name or "benchmark" in name]
    # One stored session has no more than five runs to compare with.
    assert set(rules["Mann-Whitney, runs (benchstat)", EQUAL_STORED].runs) == {5}


def test_tallies_of_two_processes_add_up() -> None:
    one, other = Tally(), Tally()
    one.add_suite(0.0, [("passed", 3), ("regressed", 10)])
    other.add_suite(0.0, [("passed", 3), ("inconclusive", 10)])
    other.add_suite(0.03, [("regressed", 5)])
    one.add(other)
    assert one.suite_alarms()[0] == 0.5
    assert one.rate(0.0, "passed", "regressed") == interval(3, 4)
    assert one.rate(0.03, "regressed") == interval(1, 1)
    assert one.rate(0.05, "regressed") is None
    assert (one.mean_runs(), one.median_runs()) == (6.5, 6.5)


@pytest.mark.parametrize(("hits", "count"), [(0, 20), (1, 20), (7, 20), (20, 20)])
def test_intervals_are_those_of_clopper_and_pearson(hits: int, count: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(hits, count).proportion_ci(0.95, method="exact")
    share, low, high = interval(hits, count)
    assert share == hits / count
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_the_table_has_every_rule_and_says_what_is_missing(tmp_path: Path) -> None:
    quiet = Simulation(level="quiet", truths=(0.0,))
    found = try_ours(quiet, MARGINS, 1, range(1), 1)
    found |= try_peers(quiet, {EQUAL_STORED: 3, EQUAL_INTERLEAVED: 3}, 1, range(1))
    text = table.markdown(
        [quiet], {"quiet": found}, MARGINS, {"asv": "No module named 'asv'"}, tmp_path, 1
    )
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 + 3 * len(load()[0])
    assert len({row.count("|") for row in rows}) == 1
    assert "**asv was not called**: No module named 'asv'" in text
    assert f"{tmp_path} is not there" in text


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed here")
    from verdict_study import picture

    found = try_ours(QUIET, MARGINS, 1, range(1), 1)
    picture.draw([QUIET], {"quiet": found}, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_noise_of_pairs_asks_for() -> None:
    tradeoff = pytest.importorskip("verdict_study.tradeoff", reason="matplotlib is not installed")
    needed = [tradeoff.pairs_needed(sd, 0.03, MARGINS) for sd in (0.005, 0.01, 0.02, 0.3)]
    assert needed[:3] == sorted(needed[:3])
    assert needed[0] < 10 < needed[2] < 40
    assert tradeoff.pairs_needed(5.0, 0.03, MARGINS) is None
    assert tradeoff.pairs_needed(0.001, 0.005, MARGINS) is None, "below the min effect"
