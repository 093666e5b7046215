"""Estimates how fast each node is: log throughput = case + node + day + noise, least squares.

Two nodes are compared through the cases that both ran, or through a chain of such nodes. What is
sampled is the session of the suite: its cases share the day.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.command_results import NodeEffect, NodeEffects
from pytest_dlperf.judge.leave_one_out import Stamp, suite_sessions

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

#: Rates are stored to six digits; no standard deviation (log) can be smaller.
_LEAST_SD: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The level of one session of one case on one node."""

    #: What makes levels comparable: machine class, case and conditions.
    case: str
    node: str
    log_throughput: float
    time: str
    commit: str = ""


def node_effects(
    observations: Sequence[Observation], *, alpha: float, without_node: int = 0
) -> NodeEffects:
    """Return the effect of every node; ``without_node`` is copied to the result."""
    effects: list[NodeEffect] = []
    suite_of = _suites(observations)
    for number, indexes in enumerate(_groups(observations)):
        members, numbers = [observations[i] for i in indexes], [suite_of[i] for i in indexes]
        cases: defaultdict[str, list[str]] = defaultdict(list)
        suites: defaultdict[str, set[int]] = defaultdict(set)
        for observation, suite in zip(members, numbers, strict=True):
            cases[observation.node].append(observation.case)
            suites[observation.node].add(suite)
        described = {
            node: NodeEffect(
                node=node,
                cases=len(set(cases[node])),
                sessions=len(cases[node]),
                suite_sessions=len(suites[node]),
                group=number,
            )
            for node in sorted(cases)
        }
        effects += _estimated(members, numbers, described)
    corrected = _holm([effect.p for effect in effects if effect.p is not None])
    corrected_p = iter(corrected)
    nodes = [
        effect if effect.p is None else replace(effect, p_corrected=next(corrected_p))
        for effect in effects
    ]
    nodes.sort(key=lambda effect: (effect.group, effect.effect or 0.0, effect.node))
    return NodeEffects(
        alpha=alpha, sessions=len(observations), without_node=without_node, nodes=tuple(nodes)
    )


def _suites(observations: Sequence[Observation]) -> Sequence[int]:
    """Return for each observation the number of its session of the suite."""
    return suite_sessions(
        [Stamp(case=one.case, time=one.time, place=(one.node, one.commit)) for one in observations]
    )


def _groups(observations: Sequence[Observation]) -> list[list[int]]:
    """Return the indexes of observations of nodes that common cases connect, most nodes first."""
    nodes_of: defaultdict[str, set[str]] = defaultdict(set)
    cases_of: defaultdict[str, set[str]] = defaultdict(set)
    for observation in observations:
        nodes_of[observation.case].add(observation.node)
        cases_of[observation.node].add(observation.case)
    group_of: dict[str, int] = {}
    for start in sorted(cases_of):
        if start in group_of:
            continue
        number, reached = len(set(group_of.values())), [start]
        while reached:
            node = reached.pop()
            if node not in group_of:
                group_of[node] = number
                reached += [neighbour for case in cases_of[node] for neighbour in nodes_of[case]]
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for i, observation in enumerate(observations):
        groups[group_of[observation.node]].append(i)
    sizes = {
        number: len({observations[i].node for i in members}) for number, members in groups.items()
    }
    return [
        groups[number] for number in sorted(groups, key=lambda number: (-sizes[number], number))
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fit:
    """Least squares of log throughput = one group + another."""

    #: The effect of each fitted group against the mean of all, and the pseudo-inverse of the
    #: normal equations.
    effects: Sequence[float]
    inverse: NDArray[float64]
    #: Sum of squares of the residuals, and their degrees of freedom.
    squares: float
    df: int


def _fit(values: Sequence[float], out: Sequence[Hashable], groups: Sequence[Hashable]) -> _Fit:
    """Fit ``values``; ``out`` is eliminated first, which leaves one equation per other group."""
    import numpy as np

    at_group, at_out = _numbers(groups), _numbers(out)
    per_out = np.bincount(at_out).astype(float)
    left = np.array(values)
    left -= (np.bincount(at_out, weights=left) / per_out)[at_out]
    counts = np.zeros((len(per_out), max(at_group) + 1))
    np.add.at(counts, (at_out, at_group), 1.0)
    normal = np.diag(counts.sum(axis=0)) - counts.T @ (counts / per_out[:, None])
    inverse = np.linalg.pinv(normal, hermitian=True)
    right = np.bincount(at_group, weights=left)
    effects = inverse @ right
    rank = int(np.linalg.matrix_rank(normal, hermitian=True))
    return _Fit(
        effects=effects.tolist(),
        inverse=inverse,
        squares=max(0.0, float(left @ left - right @ effects)),
        df=len(values) - len(per_out) - rank,
    )


def _numbers(names: Sequence[Hashable]) -> list[int]:
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return [number[name] for name in names]


def _variance(nodes: _Fit, suites: _Fit) -> tuple[float, int]:
    """Return the variance of a level within its node, and its degrees of freedom.

    All cases of a session of the suite share a day, its clocks and its temperature, so they do not
    sample days. The variance is the spread between a node's sessions of the suite, or that within
    them if it is larger. Without several sessions of a node it is infinite.
    """
    df = nodes.df - suites.df
    if df < 1:
        return math.inf, 0
    within = suites.squares / suites.df if suites.df else 0.0
    between = max(0.0, nodes.squares - suites.squares) / df
    return max(between, within, _LEAST_SD**2), df


def _estimated(
    members: Sequence[Observation], suites: Sequence[int], described: Mapping[str, NodeEffect]
) -> list[NodeEffect]:
    """Return the nodes of one group with their effects, where nodes and noise are known."""
    from scipy.special import stdtr

    nodes = [observation.node for observation in members]
    names = list(dict.fromkeys(nodes))
    if len(names) < 2:
        return list(described.values())
    cases, values = (
        [observation.case for observation in members],
        [observation.log_throughput for observation in members],
    )
    fit = _fit(values, cases, nodes)
    # Sessions may be thousands, and cases are fewer.
    variance, df = _variance(fit, _fit(values, suites, cases))
    if not df:
        return list(described.values())
    against_others = len(names) / (len(names) - 1)
    effects: list[NodeEffect] = []
    for i, (name, effect) in enumerate(zip(names, fit.effects, strict=True)):
        error = math.sqrt(float(fit.inverse[i, i]) * variance)
        effects.append(
            replace(
                described[name],
                effect=effect,
                effect_se=error,
                change=math.expm1(effect * against_others),
                p=min(1.0, 2 * float(stdtr(df, -abs(effect) / error))),
            )
        )
    return effects


def _holm(p_values: Sequence[float]) -> list[float]:
    """Return p values that hold for all of them together (Holm 1979)."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[i] * (len(p_values) - rank)))
        corrected[i] = largest
    return corrected
