"""How fast each node is: log throughput = case + node + noise, by least squares.

A node is compared with another through the cases that both ran, or through a chain of such.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.node_effect import NodeEffect, NodeEffects
from pytest_dlperf.judge.suite_sessions import Stamp, suite_sessions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Rates are stored to six digits: nothing is known better than that (log).
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
    """Return the effect of every node; ``without_node`` is a count that is passed on."""
    found: list[NodeEffect] = []
    suites = _suites(observations)
    for number, members in enumerate(_groups(observations)):
        cases: defaultdict[str, list[str]] = defaultdict(list)
        for one in members:
            cases[one.node].append(one.case)
        described = {
            node: NodeEffect(
                node=node,
                cases=len(set(cases[node])),
                sessions=len(cases[node]),
                suite_sessions=suites[node],
                group=number,
            )
            for node in sorted(cases)
        }
        found += _estimated(members, described)
    corrected = _holm([one.p for one in found if one.p is not None])
    known = iter(corrected)
    nodes = [one if one.p is None else replace(one, p_corrected=next(known)) for one in found]
    nodes.sort(key=lambda one: (one.group, one.effect or 0.0, one.node))
    return NodeEffects(
        alpha=alpha, sessions=len(observations), without_node=without_node, nodes=tuple(nodes)
    )


def _suites(observations: Sequence[Observation]) -> Mapping[str, int]:
    """Return in how many sessions of the suite each node took part."""
    numbers = suite_sessions(
        [Stamp(case=one.case, time=one.time, place=(one.node, one.commit)) for one in observations]
    )
    found: defaultdict[str, set[int]] = defaultdict(set)
    for one, number in zip(observations, numbers, strict=True):
        found[one.node].add(number)
    return {node: len(those) for node, those in found.items()}


def _groups(observations: Sequence[Observation]) -> list[list[Observation]]:
    """Return the observations of the nodes that common cases connect, the largest group first."""
    nodes_of: defaultdict[str, set[str]] = defaultdict(set)
    cases_of: defaultdict[str, set[str]] = defaultdict(set)
    for one in observations:
        nodes_of[one.case].add(one.node)
        cases_of[one.node].add(one.case)
    group_of: dict[str, int] = {}
    for start in sorted(cases_of):
        if start in group_of:
            continue
        number, reached = len(set(group_of.values())), [start]
        while reached:
            node = reached.pop()
            if node not in group_of:
                group_of[node] = number
                reached += [other for case in cases_of[node] for other in nodes_of[case]]
    found: defaultdict[int, list[Observation]] = defaultdict(list)
    for one in observations:
        found[group_of[one.node]].append(one)
    sizes = {number: len({one.node for one in members}) for number, members in found.items()}
    return [found[number] for number in sorted(found, key=lambda number: (-sizes[number], number))]


def _estimated(
    members: Sequence[Observation], described: Mapping[str, NodeEffect]
) -> list[NodeEffect]:
    """Return the nodes of one group with their effects, if there are several and noise is known.

    Cases are taken out first: what is left are as many equations as there are nodes. Their
    pseudo-inverse gives effects against the mean of the group.
    """
    import numpy as np
    from scipy.special import stdtr

    names = list(described)
    cases = list(dict.fromkeys(one.case for one in members))
    df = len(members) - len(cases) - len(names) + 1
    if len(names) < 2 or df < 1:
        return list(described.values())
    node_index = {name: i for i, name in enumerate(names)}
    case_index = {name: i for i, name in enumerate(cases)}
    at_node = np.array([node_index[one.node] for one in members])
    at_case = np.array([case_index[one.case] for one in members])
    values = np.array([one.log_throughput for one in members])
    per_case = np.bincount(at_case).astype(float)
    values -= (np.bincount(at_case, weights=values) / per_case)[at_case]
    counts = np.zeros((len(cases), len(names)))
    np.add.at(counts, (at_case, at_node), 1.0)
    normal = np.diag(counts.sum(axis=0)) - counts.T @ (counts / per_case[:, None])
    inverse = np.linalg.pinv(normal, hermitian=True)
    right = np.bincount(at_node, weights=values, minlength=len(names))
    effects = inverse @ right
    residual = max(0.0, float(values @ values - right @ effects)) / df
    errors = np.sqrt(np.diag(inverse) * max(residual, _LEAST_SD**2))
    against_others = len(names) / (len(names) - 1)
    return [
        replace(
            described[name],
            effect=float(effect),
            effect_se=float(error),
            change=math.expm1(float(effect) * against_others),
            p=min(1.0, 2 * float(stdtr(df, -abs(float(effect)) / float(error)))),
        )
        for name, effect, error in zip(names, effects, errors, strict=True)
    ]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Return p values that hold for all of them together (Holm 1979)."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[i] * (len(p_values) - rank)))
        corrected[i] = largest
    return corrected
