"""Error rates of the whole rule, screening included: seeded simulation, and recorded noise."""

from __future__ import annotations

import json
import os
from itertools import permutations
from pathlib import Path

import pytest
from scipy.stats import binom

from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import Noise, baseline, case, fixed_runs, measurement, session

pytestmark = pytest.mark.once

SUITE = Rule(family=24)
#: (session sd, run sd) of log throughput: as the priors believe.
LEVELS = {"1n2c": (0.03, 0.03), "1n2g": (0.01, 0.008)}
ROOT = Path(__file__).parents[3]
#: Recorded repeats, beside a checkout of the project's own development.
NOISE = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "noise"

recorded = pytest.mark.skipif(not NOISE.is_dir(), reason="the recorded noise is not here")


def noise(layout: str, seed: int, times: float = 1.0) -> Noise:
    session_sd, run_sd = LEVELS[layout]
    return Noise(seed, session_sd=times * session_sd, run_sd=times * run_sd)


def share(judged: list[Judgement], verdict: Verdict) -> float:
    return sum(one.verdict is verdict for one in judged) / len(judged)


def at_most(rate: float, tries: int) -> float:
    """The share that a true rate stays below in 999 of 1000 simulations."""
    return float(binom.ppf(0.999, tries, rate)) / tries


@pytest.mark.parametrize("layout", LEVELS)
@pytest.mark.parametrize("sessions", [1, 5])
def test_false_alarms_of_an_unchanged_suite(layout: str, sessions: int) -> None:
    suites, world, subject = 100, noise(layout, 1), case(layout)
    alarms = 0
    for _ in range(suites):
        judged = [world.screened(subject, sessions, SUITE) for _ in range(24)]
        alarms += any(one.verdict is Verdict.REGRESSED for one in judged)
    assert alarms / suites <= at_most(0.05, suites)


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("layout", LEVELS)
def test_false_alarms_of_one_case_where_the_noise_is_half_again_the_prior(layout: str) -> None:
    world, subject, tries = noise(layout, 2, times=1.5), case(layout), 600
    judged = [world.screened(subject, 10, Rule(tolerance=0.001)) for _ in range(tries)]
    alarms = share(judged, Verdict.REGRESSED)
    assert 0 < alarms <= at_most(0.05, tries)  # 0 would be a rule that never fails anything


@pytest.mark.parametrize(("layout", "tolerance"), [("1n2c", 0.25), ("1n2g", 0.08)])
@pytest.mark.parametrize("sessions", [1, 5])
def test_an_unchanged_case_is_mostly_certified_at_a_tolerance_beyond_its_noise(
    layout: str, tolerance: float, sessions: int
) -> None:
    world, rule = noise(layout, 3), Rule(family=24, tolerance=tolerance)
    judged = [world.screened(case(layout), sessions, rule) for _ in range(300)]
    assert share(judged, Verdict.PASSED) >= 0.92


@pytest.mark.parametrize(
    ("layout", "sessions", "slower", "found"),
    [("1n2c", 1, 0.40, 0.95), ("1n2c", 5, 0.20, 0.90), ("1n2g", 1, 0.20, 0.95),
     ("1n2g", 5, 0.08, 0.90)],
)  # fmt: skip
def test_gross_slowdowns_are_found(
    layout: str, sessions: int, slower: float, found: float
) -> None:
    world = noise(layout, 4)
    judged = [world.screened(case(layout), sessions, SUITE, slower) for _ in range(200)]
    assert share(judged, Verdict.REGRESSED) >= found
    assert share(judged, Verdict.PASSED) <= at_most(0.05, 200)


@pytest.mark.parametrize(("layout", "tolerance"), [("1n2c", 0.2), ("1n2g", 0.05)])
@pytest.mark.parametrize("sessions", [1, 5])
@pytest.mark.parametrize("times", [1.0, 1.5])
def test_a_case_slower_than_its_tolerance_is_rarely_passed(
    layout: str, tolerance: float, sessions: int, times: float
) -> None:
    world, tries = noise(layout, 5, times), 150
    rule = Rule(family=24, tolerance=tolerance)
    judged = [world.screened(case(layout), sessions, rule, tolerance) for _ in range(tries)]
    assert share(judged, Verdict.PASSED) <= at_most(0.05, tries)


@pytest.mark.parametrize("layout", LEVELS)
def test_what_it_says_it_sees_it_does_see(layout: str) -> None:
    # A slowdown of exactly ``sees`` is as likely to be called as not, at a fixed number of runs.
    world, subject = noise(layout, 6), case(layout, protocol=fixed_runs())
    sees = world.screened(subject, 5, SUITE).throughput.sees
    assert sees is not None
    rule = Rule(family=24, tolerance=0.001)
    judged = [world.screened(subject, 5, rule, 1.3 * sees) for _ in range(200)]
    assert share(judged, Verdict.REGRESSED) >= 0.75
    judged = [world.screened(subject, 5, rule, 0.5 * sees) for _ in range(200)]
    assert share(judged, Verdict.REGRESSED) <= 0.25


def quiet_numpy() -> list[float]:
    lines = (NOISE / "rec_quiet.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [100 / sum(record["it"][50:]) for record in records if record["slow"] == 0]


def quiet_torch() -> list[float]:
    rates = []
    for first in sorted((NOISE / "torch" / "quiet").glob("*.r0.json")):
        ranks = [
            json.loads(path.read_text())
            for path in (first, first.with_name(first.name.replace(".r0.", ".r1.")))
        ]
        if ranks[0]["inject"] == 0:
            rates.append(100 / max(sum(rank["per"][50:]) for rank in ranks))
    return rates


def fives(rates: list[float]) -> list[list[float]]:
    return [rates[i : i + 5] for i in range(0, len(rates) - 4, 5)]


@recorded
@pytest.mark.parametrize("source", [quiet_numpy, quiet_torch])
@pytest.mark.parametrize("family", [1, 24])
def test_recorded_cpu_runs_of_unchanged_code_are_never_regressed(source, family) -> None:
    sessions = fives(source())
    assert len(sessions) >= 5
    judged = [
        judge(case("1n2c"), measurement(now), baseline(session(before)), Rule(family=family))
        for before, now in permutations(sessions, 2)
    ]
    for one in judged:
        assert one.verdict is not Verdict.REGRESSED, one.text


@recorded
def test_recorded_cpu_runs_made_40_percent_slower_are_mostly_regressed() -> None:
    sessions = fives(quiet_numpy())
    judged = [
        judge(
            case("1n2c"),
            measurement([0.6 * rate for rate in now]),
            baseline(session(before)),
            SUITE,
        )
        for before, now in permutations(sessions, 2)
    ]
    assert share(judged, Verdict.REGRESSED) >= 0.4
    assert share(judged, Verdict.PASSED) == 0


@recorded
@pytest.mark.parametrize("later_first", [False, True])
def test_recorded_gpu_repeats_are_certified_and_never_regressed(later_first: bool) -> None:
    cases = json.loads((NOISE / "repeated_runs.json").read_text())
    judged = []
    for one in cases:
        half = len(one["runs"]) // 2
        parts = [one["runs"][:half], one["runs"][half:]]
        before, now = reversed(parts) if later_first else parts
        judged.append(judge(case("1n2g"), measurement(now), baseline(session(before)), Rule()))
    assert len(judged) >= 50
    assert share(judged, Verdict.REGRESSED) == 0
    assert share(judged, Verdict.PASSED) >= 0.75
