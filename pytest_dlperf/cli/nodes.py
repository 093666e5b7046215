"""``dlperf nodes``: which node is slow over all cases."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.cli.parser import add_json, add_results
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.command_results import NodeEffect, NodeEffects
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.judge.stats.node_effects import Observation, node_effects
from pytest_dlperf.report import figures, json_
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.schemas import FORMAT
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.stored_session import session_of

_HEADINGS: Final = (
    "node",
    "against the mean",
    "standard error",
    "p",
    "p (Holm)",
    "cases",
    "sessions",
    "of the suite",
)


def render(effects: NodeEffects) -> str:
    """Return the table of nodes, and what follows from it in sentences."""
    lines = [*_table(effects.nodes), ""] if effects.nodes else []
    return "\n".join([*lines, *_sentences(effects)])


def _table(nodes: Sequence[NodeEffect]) -> list[str]:
    rows = [_HEADINGS, *map(_row, nodes)]
    return aligned(rows, right=range(1, len(_HEADINGS)))


def _row(node: NodeEffect) -> tuple[str, ...]:
    effect = None if node.effect is None else math.expm1(node.effect)
    return (
        node.node,
        figures.percent(effect),
        figures.percent(node.effect_se, sign=False),
        _p(node.p),
        _p(node.p_corrected),
        str(node.cases),
        str(node.sessions),
        str(node.suite_sessions),
    )


def _p(value: float | None) -> str:
    if value is None:
        return figures.ABSENT
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _sentences(effects: NodeEffects) -> Iterator[str]:
    if effects.without_node:
        yield f"{figures.counted(effects.without_node, 'session')} without a node: left out"
    groups: dict[int, list[NodeEffect]] = {}
    for node in effects.nodes:
        groups.setdefault(node.group, []).append(node)
    for node in effects.slow:
        p = _p(node.p_corrected)
        yield (
            f"{node.node} is {figures.percent(-(node.change or 0.0), sign=False)} slower than the "
            f"others over {figures.counted(node.cases, 'case')} "
            f"(p {p if p[0] == '<' else f'= {p}'}){_doubt(node)}"
        )
    if not effects.slow and any(node.effect is not None for node in effects.nodes):
        yield "no node is slower than the others for certain"
    for members in groups.values():
        if len(members) > 1 and members[0].effect is None:
            yield (
                f"{_names(members)}: too few sessions to distinguish noise from a slow node; "
                "measure a case twice on one of them"
            )
    if len(groups) > 1:
        apart = " | ".join(_names(members) for members in groups.values())
        yield f"cannot be compared, for they have no case in common: {apart}"
    if len(effects.nodes) < 2:
        yield (
            f"all sessions ran on {effects.nodes[0].node}: there is no other node to compare it "
            "with"
            if effects.nodes
            else "no session recorded its node"
        )


def _doubt(node: NodeEffect) -> str:
    if node.suite_sessions > 1:
        return ""
    return "; all of it in one session of the suite, so it may have been that day alone"


def _names(members: Sequence[NodeEffect]) -> str:
    return ", ".join(sorted(one.node for one in members))


#: Where baselines are looked for if no folder is named.
_BASELINES: Final = Path("baselines")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "From stored sessions, and from results files where they are named."
    add_results(parser, nargs="*", text=", which count beside the stored sessions")
    parser.add_argument(
        "--baselines", type=Path, metavar="DIR", help="folder of the baselines (baselines/ here)"
    )
    parser.add_argument(
        "--alpha",
        metavar="SHARE",
        default="5%",
        help="share of calls in which a node of several equal ones is called slow, as 1%% or "
        "0.01 (5%%)",
    )
    add_json(parser)
    parser.set_defaults(run=_nodes)


def _nodes(arguments: argparse.Namespace) -> int:
    alpha = Rule(alpha=parse_share(arguments.alpha, what="--alpha")).alpha
    outcomes = [outcome for path in arguments.results for outcome in json_.read(path)]
    effects = compare_nodes(_baselines(arguments), outcomes, alpha=alpha)
    if arguments.json:
        say_json({"format": FORMAT, **encode(effects)})
    else:
        say(render(effects))
    return 0


def _baselines(arguments: argparse.Namespace) -> list[Baseline]:
    """Return what is stored; a folder that nobody named need not be there beside results."""
    root: Path = arguments.baselines or _BASELINES
    if not root.is_dir():
        if arguments.baselines is None and arguments.results and not root.exists():
            return []
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    return [entry.baseline for entry in BaselineStore(root).all()]


def compare_nodes(
    baselines: Iterable[Baseline], outcomes: Iterable[Outcome], *, alpha: float
) -> NodeEffects:
    """Return how fast each node is over the measured sessions of both.

    A session that is stored and in a results file as well counts once.
    """
    measured: dict[tuple[str, str, tuple[float, ...]], tuple[str, Session]] = {}
    for case, session in (*_stored(baselines), *_sessions_of_results(outcomes)):
        measured.setdefault((case, session.time, session.runs), (case, session))
    observed = [
        Observation(
            case=case,
            node=session.node,
            log_throughput=math.log(statistics.median(session.runs)),
            time=session.time,
            commit=session.commit,
        )
        for case, session in measured.values()
        if session.node
    ]
    return node_effects(observed, alpha=alpha, without_node=len(measured) - len(observed))


def _stored(baselines: Iterable[Baseline]) -> Iterator[tuple[str, Session]]:
    for baseline in baselines:
        if baseline.source.kind != "measured":
            continue
        name = _case(baseline.machine_class, baseline.case_id, baseline.conditions)
        yield from ((name, session) for session in baseline.sessions)
        for level in baseline.history:
            # Of other conditions, or of the same at another level: either way a case of its own.
            old = f"{name} until {level.replaced}"
            yield from ((old, session) for session in level.sessions)


def _sessions_of_results(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, Session]]:
    for outcome in outcomes:
        measurement, environment = outcome.measurement, outcome.environment
        if measurement is None or not measurement.runs or measurement.inject:
            continue
        if outcome.interrupted:
            continue
        machine_class = environment.machine_class if environment else ""
        session = session_of(outcome, reason="")
        first = next((run.ranks[0].node for run in measurement.runs if run.ranks), "")
        yield (
            _case(machine_class, outcome.case.id, measurement.conditions),
            replace(session, node=first or session.node),
        )


def _case(machine_class: str, case_id: str, conditions: Conditions | None) -> str:
    same = json.dumps(encode(conditions), sort_keys=True)
    return f"{machine_class} {case_id} {same}"
