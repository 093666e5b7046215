"""Makes inputs of all kinds by a seed: the golden file has what tests seldom meet."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_dlperf.core.baseline import OBSERVED_REGRESSED, Baseline, Session, Source
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import CUT_SHORT, SPEEDUP_UNKNOWN, Measurement
from pytest_dlperf.core.metric import StoredFigures
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RunSummary, stored_scaling
from tests.golden import drawn
from tests.golden.drawn import Level, Plan, maybe
from tests.golden.made_of_rates import logs, numbers
from tests.golden.roads import Input, LeaveOneOut, Pairs, Stored

_SEED: Final = 43
#: How many inputs are drawn; those that say what others say are left out later.
_DRAWN: Final[Mapping[str, int]] = {
    "stored": 3600,
    "pairs": 2000,
    "leave one out": 400,
    "logs": 1500,
    "numbers": 800,
}
_PROBLEMS: Final = (
    ("drift",), ("drift", "recompiled"), ("recompiled",), ("clocks-disagree",),
    ("implausible-speedup",), ("disturbed",), ("precision-unchecked",), ("batch-unchecked",),
    (SPEEDUP_UNKNOWN,), (CUT_SHORT,), ("disturbed", "drift"), ("slow-start",),
)  # fmt: skip


def made() -> Iterator[tuple[str, Input]]:
    """Yield inputs with the names of what drew them."""
    makers: Mapping[str, Callable[[random.Random], Input]] = {
        "stored": stored,
        "pairs": pairs,
        "leave one out": left_out,
        "logs": logs,
        "numbers": numbers,
    }
    for name, count in _DRAWN.items():
        for number in range(count):
            rng = random.Random(f"{_SEED} {name} {number}")
            yield f"drawn: {name}", makers[name](rng)


def stored(rng: random.Random) -> Stored:
    """Draw a measurement, and a baseline."""
    plan, rule = drawn.plan(rng), drawn.rule(rng)
    level = drawn.level(rng, plan)
    if maybe(rng, 0.25):  # nothing but the parts that are named
        level = Level(rate=level.rate, memory=level.memory)
    if maybe(rng, 0.1):  # quiet, so that all is certain
        plan, level = replace(plan, run_sd=0.001, session_sd=0.0), replace(level, rate=0.0)
    count = rng.choice((plan.case.protocol.runs, plan.case.protocol.max_runs, 3, 1))
    now = drawn.measurement(rng, plan, level, count, rng.gauss(0.0, plan.session_sd))
    baseline = _baseline(rng, plan, rule.family)
    now, baseline = _with_parents(rng, plan, level, now, baseline)
    if maybe(rng, 0.2):
        now = drawn.with_problem(now, *rng.choice(_PROBLEMS))
    if plan.gates and maybe(rng, 0.15):
        now = _odd_figures(rng, plan, now)
    now = _odd_run(rng, now)
    if maybe(rng, 0.06):
        now = _elsewhere(rng, now)
    is_without = maybe(rng, 0.04)
    return Stored(
        case=plan.case, measurement=now, baseline=None if is_without else baseline, rule=rule
    )


def _odd_run(rng: random.Random, now: Measurement) -> Measurement:
    """Return a measurement of which a run seldom lacks what it should have."""
    first, *others = now.runs
    odd = rng.random()
    if odd < 0.01:
        first = replace(first, throughput=rng.choice((0.0, -1.0)))
    elif odd < 0.03:
        first = replace(first, estimates=dict.fromkeys(first.estimates, 0.0))
    elif odd < 0.06 and first.scaling is not None:
        scaling = replace(first.scaling, ranks=first.scaling.ranks[:-1])
        first = replace(first, scaling=scaling, ranks=())
    elif odd > 0.996:
        return replace(now, runs=())
    return replace(now, runs=(first, *others))


def _baseline(rng: random.Random, plan: Plan, family: int) -> Baseline:
    count = rng.choice((1, 1, 2, 3, 4, 5, 6)) + (family == 1)
    drift = rng.choice((0.0, 0.0, 0.0, -0.01, -0.03, 0.01))
    sessions = [session(rng, plan, Level(rate=drift * number), number) for number in range(count)]
    anchor = sessions[0] if maybe(rng, 0.5) else None
    if anchor is not None and maybe(rng, 0.3):
        anchor = session(rng, plan, Level(rate=rng.choice((0.0, 0.1))), 99)
    if anchor is not None and maybe(rng, 0.05):
        anchor = replace(anchor, runs=())
    if maybe(rng, 0.1):
        aside = session(rng, plan, Level(rate=-0.2), 50)
        sessions.append(replace(aside, reason=OBSERVED_REGRESSED))
    if maybe(rng, 0.02):
        sessions = [replace(stored, runs=()) for stored in sessions]
    is_published = maybe(rng, 0.06)
    if is_published:
        sessions = [Session(time=sessions[0].time, runs=sessions[0].runs)]
    table = rng.choice(("", "fp32"))
    return Baseline(
        case_id=plan.case.id, machine_class="2x-test", suite="toy", unit=plan.case.unit,
        sessions=tuple(sessions), conditions=None if is_published else plan.conditions,
        source=Source(kind="published", document=table and "report 002", table=table)
        if is_published
        else Source(),
        anchor=None if is_published else anchor,
        tolerance=rng.choice((None, None, None, 0.1)),
    )  # fmt: skip


def session(rng: random.Random, plan: Plan, level: Level, number: int) -> Session:
    """Draw a stored session."""
    count = rng.choice((5, 5, 3, 1))
    runs = drawn.measurement(rng, plan, level, count, rng.gauss(0.0, plan.session_sd)).runs
    first = runs[0]
    falls = [run.loss_fall for run in runs if run.loss_fall is not None]
    return Session(
        time=f"2026-01-{1 + number % 28:02d}T00:00:00Z",
        runs=tuple(run.throughput for run in runs),
        peak_memory_bytes=tuple(float(run.peak_memory_bytes or 0) for run in runs)
        if first.peak_memory_bytes and not maybe(rng, 0.05)
        else (),
        estimates={name: tuple(run.estimates[name] for run in runs) for name in first.estimates},
        metrics={} if maybe(rng, 0.1) else _stored_figures(runs),
        canary=drawn.medians([run.canary for run in runs]),
        canary_by_node={} if maybe(rng, 0.3) else first.canary_by_node,
        scaling=stored_scaling(runs, plan.case.layout.device),
        loss_fall=falls[0] if falls else None,
    )  # fmt: skip


def _stored_figures(runs: Sequence[RunSummary]) -> dict[str, StoredFigures]:
    return {
        name: StoredFigures(
            runs=tuple(run.metrics[name].value for run in runs),
            unit=figure.unit,
            better=figure.better,
        )
        for name, figure in runs[0].metrics.items()
    }


def _with_parents(
    rng: random.Random, plan: Plan, level: Level, now: Measurement, baseline: Baseline
) -> tuple[Measurement, Baseline]:
    """Return both sides with the rates of a part of the layout."""
    if "parent" not in plan.has or plan.case.world_size < 2:
        return now, baseline
    ideal = 100.0 / plan.case.world_size
    share = rng.choice((1.0, 0.85, 0.85, 1.1, 1.6))
    shift = rng.choice((0.0, 0.0, level.rate, -level.rate, 0.1, -0.1, 0.3))
    reference = Layout.parse("1n2c") if maybe(rng, 0.25) and plan.case.world_size > 2 else None

    def rates(shift: float, count: int) -> tuple[float, ...]:
        return tuple(
            ideal / share * math.exp(shift + rng.gauss(0.0, plan.run_sd)) for _ in range(count)
        )

    now = replace(now, parent_throughputs=rates(shift, len(now.runs)), reference=reference)
    if maybe(rng, 0.1):
        now = drawn.with_problem(replace(now, parent_throughputs=()), SPEEDUP_UNKNOWN)
    stored_reference = Layout.parse("1n1c") if maybe(rng, 0.1) else reference
    keep = rng.choice(("runs", "runs", "value", "none"))
    sessions = []
    for stored in baseline.sessions:
        parents = rates(0.0, max(1, len(stored.runs)))
        value = None if keep == "none" else 100.0 / parents[0]
        parents = parents if keep == "runs" else ()
        sessions.append(
            replace(stored, parent_runs=parents, speedup=value, reference=stored_reference)
        )
    return now, replace(baseline, sessions=tuple(sessions))


def _odd_figures(rng: random.Random, plan: Plan, now: Measurement) -> Measurement:
    """Return a measurement whose figures are missing, or mean something else."""
    how, name = rng.choice(("missing", "unit", "negative", "one missing")), plan.gates[0][0].name
    runs = []
    for number, run in enumerate(now.runs):
        figures: dict[str, Any] = dict(run.metrics)
        figure = figures.pop(name)
        if how == "unit":
            figures[name] = replace(figure, unit="ms")
        elif how == "negative":
            figures[name] = replace(figure, value=-1.0)
        elif how == "one missing" and number:
            figures[name] = figure
        runs.append(replace(run, metrics=figures))
    return replace(now, runs=tuple(runs))


def _elsewhere(rng: random.Random, now: Measurement) -> Measurement:
    """Return a measurement of other conditions, or in another unit."""
    if maybe(rng, 0.3):
        return replace(now, unit="words")
    changed: dict[str, Any] = {"threads_per_rank": 4}
    if maybe(rng, 0.5):
        changed["hardware"] = "2x-other"
    return replace(now, conditions=replace(now.conditions, **changed))


def pairs(rng: random.Random) -> Pairs:
    """Draw pairs of runs."""
    plan, rule = drawn.plan(rng), drawn.rule(rng)
    in_turns = maybe(rng, 0.35)
    if in_turns:
        plan = replace(plan, has=plan.has | {"steps", "estimates"})
    level, level_before = drawn.level(rng, plan), Level()
    if maybe(rng, 0.4):
        level = Level(rate=level.rate, memory=level.memory, cpu=level.cpu)
    if maybe(rng, 0.15):
        level_before = replace(level_before, stretch=(0.5, 0.3))
    protocol = plan.case.protocol
    count = rng.choice((3, protocol.runs, protocol.max_runs, 1))
    now = drawn.measurement(rng, plan, level, count)
    before = drawn.measurement(rng, plan, level_before, count)
    if in_turns:
        turns = rng.choice(((4, 14), (4,), (4, 11, 18), (4, 13, 22)))
        now, before = (_in_turns(arm, turns) for arm in (now, before))
    if maybe(rng, 0.35):
        now, before = _with_problems(rng, now, before)
    if plan.gates and maybe(rng, 0.2):
        now = _odd_figures(rng, plan, now)
    if plan.gates and maybe(rng, 0.2):
        before = _odd_figures(rng, plan, before)
    varied: tuple[str, ...] = ()
    if maybe(rng, 0.08):
        now = _elsewhere(rng, now)
        varied = rng.choice(((), ("threads_per_rank",)))
    before = _without_a_pair(rng, before)
    against = rng.choice(("the other arm", "HEAD~1 (commit 1a2b3c4)", "v1.2"))
    return Pairs(case=plan.case, now=now, before=before, rule=rule, varied=varied, against=against)


def _without_a_pair(rng: random.Random, arm: Measurement) -> Measurement:
    """Return an arm that seldom lacks a run, or has rates that are none."""
    odd = rng.random()
    if odd < 0.01:
        return replace(arm, runs=arm.runs[1:])
    if odd < 0.02:
        return replace(arm, runs=tuple(replace(run, throughput=0.0) for run in arm.runs))
    return arm


def _in_turns(arm: Measurement, turns: tuple[int, ...]) -> Measurement:
    return replace(arm, runs=tuple(replace(run, turns=turns) for run in arm.runs))


def _with_problems(
    rng: random.Random, now: Measurement, before: Measurement
) -> tuple[Measurement, Measurement]:
    """Return both arms with problems, some of which the machine made."""
    codes = rng.choice(_PROBLEMS)
    if maybe(rng, 0.7):
        now = drawn.with_problem(now, *codes)
    if maybe(rng, 0.5):
        before = drawn.with_problem(before, *codes)
    own = rng.choice((0.0, 0.3, 1.0))
    return _drifting(rng, now, own), _drifting(rng, before, own)


def _drifting(rng: random.Random, arm: Measurement, own: float) -> Measurement:
    """Return an arm whose runs drift as their measurement does, by themselves or all alike."""
    if not any(problem.code == "drift" for problem in arm.problems):
        return arm
    drift = Problem(code="drift", message="it shows drift.")
    machine = Problem(code=MACHINE_DRIFTED, message="so does the other arm")
    runs = [
        replace(run, problems=(drift,) if maybe(rng, own) else (drift, machine))
        for run in arm.runs
    ]
    return replace(arm, runs=tuple(runs))


def left_out(rng: random.Random) -> LeaveOneOut:
    """Draw the sessions of a level."""
    plan, rule = drawn.plan(rng), drawn.rule(rng)
    odd = drawn.level(rng, plan)
    count = rng.choice((0, 1, 2, 3, 5, 8))
    sessions = [
        session(rng, plan, odd if maybe(rng, 0.15) else Level(), number) for number in range(count)
    ]
    aside = [session(rng, plan, odd, 50)] if maybe(rng, 0.5) else []
    if plan.case.world_size > 1:
        sessions, aside = (
            [_with_speedup(rng, stored) for stored in side] for side in (sessions, aside)
        )
    return LeaveOneOut(
        sessions=tuple(sessions),
        device=plan.case.layout.device,
        rule=rule,
        asked=plan.case.metrics,
        aside=tuple(aside),
    )


def _with_speedup(rng: random.Random, stored: Session) -> Session:
    share = rng.choice((1.8, 1.8, 1.8, 1.2))
    parents = tuple(rate / share for rate in stored.runs)
    reference = Layout.parse("1n2c") if maybe(rng, 0.05) else None
    return replace(stored, parent_runs=parents, speedup=share, reference=reference)
