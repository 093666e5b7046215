"""Draws cases, runs and sessions of any kind that the judge may meet, by a seed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_dlperf.core.case import Case, Known
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.metric import Figure, Gate
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Problem, RankScaling, RankSummary, RunSummary, Scaling
from pytest_dlperf.core.verdict import Rule
from tests.helpers.judge_builders import CONDITIONS

_LAYOUTS: Final = ("1n1g", "1n3g", "2n2g", "1n1c", "1n2c", "1n3c")
_WINDOW: Final = (4, 24)
_CHANGES: Final = (0.0, 0.0, 0.01, -0.01, -0.02, -0.04, -0.07, -0.15, -0.4, 0.05, 0.2)
_CANARIES: Final = (
    "matmul_gflop_per_s",
    "copy_gb_per_s",
    "all_reduce_gb_per_s",
    "sustained_all_reduce_gb_per_s",
)
#: What can be gated, with the unit of its figures, and which way is better.
_GATES: Final[tuple[tuple[Gate, str, Any], ...]] = (
    (Gate(name="compile_seconds"), "s", "lower"),
    (Gate(name="step_p95", tolerance=0.05, is_count=False), "s", "lower"),
    (Gate(name="reserved_memory"), "bytes", "lower"),
    (Gate(name="graph_breaks"), "", "lower"),
    (Gate(name="recompiles"), "", "lower"),
    (Gate(name="mfu"), "", "higher"),
    (Gate(name="accuracy", tolerance=0.03, is_count=False), "", "higher"),
    (Gate(name="experts_used", is_count=True), "", "higher"),
)
#: Of a figure that is gated: the size of its value.
_SIZES: Final = {"bytes": 4e9, "s": 12.0, "": 40.0}


def maybe(rng: random.Random, share: float) -> bool:
    """Whether to do what is done with this probability."""
    return rng.random() < share


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What all runs of one input share."""

    case: Case
    #: Standard deviations of logs.
    run_sd: float
    session_sd: float
    canary_sd: float
    #: What runs have: names of parts.
    has: frozenset[str]
    conditions: Conditions
    gates: tuple[tuple[Gate, str, Any], ...] = ()
    nodes: tuple[str, ...] = ("n0",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """How runs of a session, or an arm, differ from those of others: log changes, by what."""

    rate: float = 0.0
    memory: float = 0.0
    cpu: float = 0.0
    figures: float = 0.0
    counts: int = 0
    loss: float = 0.6
    #: Of the median step, and of the mean of rates, on top of that of the rate.
    median: float = 0.0
    mean: float = 0.0
    canary: Mapping[str, float] = field(default_factory=dict)
    #: Share by which the last rank, or all of the last node, is slower.
    slow_rank: float = 0.0
    collectives: float = 0.1
    #: A stretch of slow steps: the share of the window, and how much longer they take.
    stretch: tuple[float, float] = (0.0, 0.0)


def plan(rng: random.Random) -> Plan:
    """Draw what all runs of one input share."""
    layout = Layout.parse(rng.choice(_LAYOUTS))
    precisions = ("fp32", "bf16", "amp") if layout.device == "gpu" else ("fp32", "bf16")
    gates = tuple(rng.sample(_GATES, rng.choice((1, 1, 2)))) if maybe(rng, 0.35) else ()
    runs = rng.choice((1, 3, 5, 5, 5, 8))
    protocol = Protocol(
        iterations=_WINDOW[1], warmup=_WINDOW[0], runs=runs,
        max_runs=max(runs, rng.choice((5, 10, 20))), adaptive=maybe(rng, 0.8),
    )  # fmt: skip
    case = Case(
        suite="toy", framework="torch", workload="toy:build", precision=rng.choice(precisions),
        batch_size_per_device=4, unit=rng.choice(("images", "tokens")), layout=layout,
        protocol=protocol, tolerance=rng.choice((None, None, None, 0.02, 0.08)),
        metrics=tuple(gate for gate, _, _ in gates), loss=rng.choice(("falls", "falls", "finite")),
        known=_known_slowdown(rng) if maybe(rng, 0.12) else None,
    )  # fmt: skip
    parts = {
        "memory": 0.5, "ranks": 0.4, "loss": 0.7, "cpu": 0.6, "scaling": 0.6, "canary": 0.5,
        "by node": 0.4, "estimates": 0.5, "steps": 0.5, "parent": 0.6, "elapsed": 0.6,
    }  # fmt: skip
    conditions = replace(
        CONDITIONS, window=_WINDOW, unit=case.unit, world_size=case.world_size,
        data=rng.choice(("synthetic", "synthetic", "real")),
    )  # fmt: skip
    return Plan(
        case=case,
        run_sd=rng.choice((0.001, 0.004, 0.01, 0.03)),
        session_sd=rng.choice((0.0, 0.004, 0.01, 0.03)),
        canary_sd=rng.choice((0.004, 0.004, 0.06)),
        has=frozenset(name for name, share in parts.items() if maybe(rng, share)),
        conditions=conditions,
        gates=gates,
        nodes=tuple(f"n{i}" for i in range(layout.nodes)),
    )


def _known_slowdown(rng: random.Random) -> Known:
    return Known(issue="#123", until="2026-06-30", change=rng.choice((-0.03, -0.08, -0.2)))


def rule(rng: random.Random) -> Rule:
    """Draw the rule of a session."""
    return Rule(
        tolerance=rng.choice((None, None, None, 0.03, 0.05, 0.1)),
        min_effect=rng.choice((0.01, 0.01, 0.01, 0.0, 0.03)),
        alpha=rng.choice((0.05, 0.05, 0.2)),
        family=rng.choice((1, 3, 10, 96)),
        certify_share=rng.choice((1.0, 0.5)),
        without_pairs=maybe(rng, 0.3),
    )


def level(rng: random.Random, plan: Plan) -> Level:
    """Draw how the runs of now differ from those of before."""
    change = math.log1p(rng.choice(_CHANGES))
    canary = {}
    if maybe(rng, 0.5):
        names = _CANARIES[2:] if maybe(rng, 0.35) else rng.sample(_CANARIES, rng.choice((1, 2)))
        size = rng.choice(
            (change, change, math.log1p(rng.choice((-0.5, -0.2, -0.12, -0.06, 0.3))))
        )
        canary = dict.fromkeys(names, size)
    return Level(
        rate=change,
        memory=rng.choice((0.0, 0.0, 0.01, 0.05, 0.3, -0.1)),
        cpu=rng.choice((-change, -change, 0.3, 0.05)),
        figures=rng.choice((0.0, 0.02, 0.05, 0.3, -0.3)),
        counts=rng.choice((0, 0, 1, -1)),
        loss=rng.choice((0.6, 0.6, 0.6, 0.6, 0.2, -0.1)),
        median=rng.choice((0.0, 0.0, 0.0, 0.02, 0.15, -0.15)),
        mean=rng.choice((0.0, 0.0, 0.0, 0.15, -0.15)),
        canary=canary,
        slow_rank=rng.choice((0.0, 0.0, 0.1, 0.3)),
        collectives=rng.choice((0.1, 0.1, 0.2, 0.4, 0.01)),
        stretch=rng.choice(((0.0, 0.0), (0.0, 0.0), (0.2, 1.0), (0.5, 0.3))),
    )


def run(rng: random.Random, plan: Plan, level: Level, session: float) -> RunSummary:
    """Draw one run of a session whose log level is ``session``."""

    def near(value: float, shift: float = 0.0, sd: float = plan.run_sd) -> float:
        return value * math.exp(shift + rng.gauss(0.0, sd))

    has, case = plan.has, plan.case
    rate = near(100.0, level.rate + session)
    estimates = {}
    if "estimates" in has:
        estimates = {
            "mean_of_rates": near(rate, level.mean, plan.run_sd / 4),
            "median_step": near(rate, level.median, plan.run_sd / 4),
        }
    canary = (
        {name: near(50.0, level.canary.get(name, 0.0), plan.canary_sd) for name in _CANARIES}
        if "canary" in has
        else {}
    )
    ranks = _ranks(plan, level, near) if "ranks" in has else ()
    return RunSummary(
        throughput=rate,
        estimates=estimates,
        step_seconds=_steps(plan, level, rate, near) if "steps" in has else (),
        ranks=ranks,
        peak_memory_bytes=int(near(2e9, level.memory, plan.run_sd / 5))
        if "memory" in has
        else None,
        time_to_first_step_s=1.0,
        canary=canary,
        others_cpu_share=None,
        elapsed_s=near(30.0) if "elapsed" in has else 0.0,
        metrics=_figures(plan, level, near),
        canary_by_node=dict.fromkeys(plan.nodes, canary) if canary and "by node" in has else {},
        scaling=_scaling(plan, level, near) if "scaling" in has and case.world_size > 1 else None,
    )


def _steps(plan: Plan, level: Level, rate: float, near: Any) -> tuple[float, ...]:
    first, end = plan.case.protocol.window
    slow = first + round((end - first) * level.stretch[0])
    seconds = plan.case.iteration_work / rate if plan.case.iteration_work else 1 / rate
    return tuple(
        float(f"{near(seconds, level.stretch[1] if first <= i < slow else 0.0, 0.01):.3g}")
        for i in range(end)
    )


def _node(plan: Plan, rank: int) -> str:
    return plan.nodes[rank * len(plan.nodes) // plan.case.world_size]


def _slow(plan: Plan, level: Level, rank: int) -> float:
    """Return by how much a rank is slower: the last one, or all of the last of several nodes."""
    last = plan.case.world_size - 1
    is_slow = rank == last or (len(plan.nodes) > 1 and _node(plan, rank) == _node(plan, last))
    return level.slow_rank if is_slow else 0.0


def _ranks(plan: Plan, level: Level, near: Any) -> tuple[RankSummary, ...]:
    found = []
    for rank in range(plan.case.world_size):
        seconds = near(8.0, level.cpu + _slow(plan, level, rank), 0.01)
        first = near(2.0, 0.0, 0.001)
        found.append(
            RankSummary(
                rank=rank,
                node=_node(plan, rank),
                seconds=seconds,
                cpu_seconds=seconds if "cpu" in plan.has else None,
                peak_memory_bytes=None,
                loss_first=first if "loss" in plan.has else None,
                loss_last=first * (1 - level.loss) if "loss" in plan.has else None,
            )
        )
    return tuple(found)


def _scaling(plan: Plan, level: Level, near: Any) -> Scaling:
    ranks = tuple(
        RankScaling(
            rank=rank,
            node=_node(plan, rank),
            step_seconds=0.1,
            own_seconds=near(0.08, _slow(plan, level, rank), 0.01),
        )
        for rank in range(plan.case.world_size)
    )
    share = near(level.collectives, 0.0, 0.02)
    return Scaling(method="timeline", ranks=ranks, collectives_share=share)


def _figures(plan: Plan, level: Level, near: Any) -> dict[str, Figure]:
    found = {}
    for gate, unit, better in plan.gates:
        if gate.name in {"graph_breaks", "recompiles", "experts_used"}:
            value = float(3 + level.counts)
        else:
            value = near(_SIZES[unit], level.figures)
        found[gate.name] = Figure(value=value, unit=unit, better=better)
    return found


def measurement(
    rng: random.Random, plan: Plan, level: Level, count: int, session: float = 0.0
) -> Measurement:
    """Draw the runs of one session or arm."""
    return Measurement(
        case_id=plan.case.id,
        unit=plan.case.unit,
        conditions=plan.conditions,
        runs=tuple(run(rng, plan, level, session) for _ in range(count)),
    )


def with_problem(found: Measurement, *codes: str) -> Measurement:
    """Return the measurement with problems of these codes."""
    problems = [Problem(code=code, message=f"it shows {code}.") for code in codes]
    return replace(found, problems=(*found.problems, *problems))


def medians(sides: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each name over the runs."""
    names = {name for side in sides for name in side}
    return {
        name: statistics.median(side[name] for side in sides if name in side)
        for name in sorted(names)
    }
