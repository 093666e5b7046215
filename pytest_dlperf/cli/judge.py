"""``dlperf judge BASE CURRENT``: verdicts on logs, results files, a baseline, plain numbers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.parser import add_json, add_shares
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.option_names import command_options
from pytest_dlperf.core.outcome import Outcome, judgement_to_json, results_to_json
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import BAD, GOOD, Judgement, Rule, Verdict
from pytest_dlperf.flow.from_logs import Training
from pytest_dlperf.flow.sides import (
    baseline_of,
    judge_sides,
    pairs_of,
    problems_of,
    read_side,
    read_sides,
    unmeasured,
)
from pytest_dlperf.judge.evidence.logs import LogSide
from pytest_dlperf.judge.verdict import plain_judgement, reworded, with_finding
from pytest_dlperf.judge.words.options import Options
from pytest_dlperf.measure.logs.problems import with_remedy
from pytest_dlperf.report.schemas import FORMAT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Each side is a log, several with commas or a glob, a folder of logs, a file of "
        "--dlperf-json, a baseline's file, or numbers as JSON: "
        '{"unit": "samples/s", "sessions": [{"runs": [512.1, 509.8]}]}.'
    )
    parser.add_argument("base", metavar="BASE", help="what is compared with")
    parser.add_argument(
        "current",
        nargs="+",
        metavar="CURRENT",
        help="what is judged; several files of --dlperf-json are one session",
    )
    add_shares(parser, "tolerance", "min-effect", "alpha")
    parser.add_argument(
        "--family",
        type=extract_command.positive,
        metavar="N",
        help="number of cases that alpha is split over (1)",
    )
    parser.add_argument(
        "--paired", action="store_true", help="run i of both sides was measured side by side"
    )
    parser.add_argument("--strict", action="store_true", help="fail also what was not judged")
    extract_command.add_reading(parser)
    add_json(parser)
    parser.set_defaults(run=_judge)


def _judge(arguments: argparse.Namespace) -> int:
    rule = _rule(arguments)
    options = extract_command.parse_options(arguments)
    before = read_side(arguments.base, options)
    pairs, alone = pairs_of(before, read_sides(arguments.current, options))
    judgements = {
        key: _worded(_verdict(*pair, rule, arguments), arguments) for key, pair in pairs.items()
    }
    if arguments.json:
        say_json(judged_to_json(pairs, judgements, alone=alone))
    else:
        for key, judgement in judgements.items():
            say(f"{key}: {_mark(judgement)}")
            for line in judgement.text.splitlines():
                say(f"  {line}")
            for side, problem in problems_of(*pairs[key]):
                say(f"  {side}: {problem.code}: {with_remedy(problem)}")
    failing = set(Verdict) - GOOD if arguments.strict else BAD
    return 1 if any(judgement.verdict in failing for judgement in judgements.values()) else 0


def _rule(arguments: argparse.Namespace) -> Rule:
    shares: dict[str, Any] = {
        name: parse_share(text, what=f"--{name.replace('_', '-')}")
        for name in ("tolerance", "min_effect", "alpha")
        if (text := getattr(arguments, name)) is not None
    }
    return Rule(**shares, family=arguments.family or 1)


def _verdict(
    before: Training | None, now: Training | None, rule: Rule, arguments: argparse.Namespace
) -> Judgement:
    current = ", ".join(arguments.current)
    if now is None:
        return plain_judgement(Verdict.NOT_RUN, f"{current} does not have it")
    if held := unmeasured({current: now, arguments.base: before}):
        return held
    if before is None:
        return plain_judgement(Verdict.NO_BASELINE, f"{arguments.base} does not have it")
    try:
        judgement = judge_sides(before, now, rule, paired=arguments.paired)
    except CaseError as error:
        return plain_judgement(Verdict.ERROR, str(error))
    except KeyError as error:
        raise UsageError(f"{current}: {error} is missing") from error
    files = {os.path.realpath(name) for name in arguments.current}
    if not isinstance(now, LogSide) and files == {os.path.realpath(arguments.base)}:
        return with_finding(judgement, "same-files", text="both sides are the same file")
    return judgement


def _worded(judgement: Judgement, arguments: argparse.Namespace) -> Judgement:
    return reworded(judgement, options=Options(names=command_options(arguments.own_options)))


def _mark(judgement: Judgement) -> str:
    """Return the verdict, marked where one session alone is all there is to compare with."""
    return f"{judgement.verdict}" + (" (provisional)" if judgement.throughput.provisional else "")


def judged_to_json(
    pairs: Mapping[str, tuple[Training | None, Training | None]],
    judgements: Mapping[str, Judgement],
    *,
    alone: bool,
) -> dict[str, Any]:
    """Return the verdicts in plain JSON types.

    One training alone: its judgement. Several cases of results files: a results file with these
    verdicts. Several trainings that logs name, which are not cases: a list of judgements.
    """
    if alone:
        [key] = judgements
        return {"format": FORMAT, **_judgement(key, judgements[key], pairs[key])}
    outcomes = [_outcome(judgements[key], *pairs[key]) for key in judgements]
    of_cases = [outcome for outcome in outcomes if outcome is not None]
    if len(of_cases) == len(outcomes):
        return results_to_json(of_cases)
    return {
        "format": FORMAT,
        "trainings": [
            _judgement(key, judgement, pairs[key]) for key, judgement in judgements.items()
        ],
    }


def _judgement(
    key: str, judgement: Judgement, pair: tuple[Training | None, Training | None]
) -> dict[str, Any]:
    return {
        **judgement_to_json(judgement),
        "training": key,
        "problems": [{"side": side, **encode(problem)} for side, problem in problems_of(*pair)],
    }


def _outcome(
    judgement: Judgement, before: Training | None, now: Training | None
) -> Outcome | None:
    """Return the case with its new verdict; None where no side knows what case it is."""
    failed = judgement.verdict in BAD
    if isinstance(now, Outcome):
        sessions = _sessions(before)
        return replace(
            now, judgement=judgement, baseline_sessions=sessions, failed=failed, update=""
        )
    if now is None and isinstance(before, Outcome):
        return Outcome(case=before.case, judgement=judgement, failed=failed)
    return None


def _sessions(before: Training | None) -> tuple[Session, ...]:
    if isinstance(before, Outcome) and before.measurement is not None and before.measurement.runs:
        before = baseline_of(before)
    return before.sessions if isinstance(before, Baseline) else ()
