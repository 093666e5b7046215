"""``dlperf baselines check``: how often the gate would have raised a false alarm."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.stdout import say
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.findings import Caseless
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import Rule

if TYPE_CHECKING:
    from pytest_dlperf.cli.declared_cases import Declared
    from pytest_dlperf.store.baseline.store import StoredBaseline

#: Where the tests are looked for if none are named.
_TESTS: Final = "perf_tests"
_SHARES: Final = ("tolerance", "tolerance-max", "min-effect", "alpha")


def add_to(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add the action to the parser of ``dlperf baselines``."""
    check = actions.add_parser(
        "check",
        parents=[common],
        help="the gate's own false alarms, what each case sees, baselines without a case",
        description="Judges each stored session against the others of its level.",
    )
    check.add_argument("paths", nargs="*", help=f"where the tests are ({_TESTS}, where it is)")
    for name in _SHARES:
        check.add_argument(f"--{name}", metavar="SHARE", help="3%% or 0.03")
    check.add_argument("--family", type=extract_command.positive, metavar="N")
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.false_alarm_rate import check_baselines
    from pytest_dlperf.core.codec import encode
    from pytest_dlperf.report import checked_text
    from pytest_dlperf.report.schemas import FORMAT
    from pytest_dlperf.store.baseline.store import BaselineStore

    root: Path = arguments.baselines
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    store = BaselineStore(root)
    entries = list(store.all())  # Before the tests are collected, which takes longer
    declared = _declared(arguments.paths)
    checked = check_baselines(
        store,
        _rule(arguments),
        family=arguments.family,
        declared=declared,
        without_case=None if declared is None else _caseless(entries, declared),
    )
    if arguments.json:
        values = {"format": FORMAT, **encode(checked)}
        text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
    else:
        text = checked_text.render(checked)
    say(text)
    return 1 if checked.above_alpha or checked.without_case else 0


def _rule(arguments: argparse.Namespace) -> Rule:
    shares: dict[str, Any] = {
        name.replace("-", "_"): parse_share(text, what=f"--{name}")
        for name in _SHARES
        if (text := getattr(arguments, name.replace("-", "_"))) is not None
    }
    return Rule(**shares)


def _declared(paths: list[str]) -> Mapping[str, Declared] | None:
    """Return the cases that the tests declare; None where no tests are named or found."""
    from pytest_dlperf.cli.declared_cases import declared_cases

    if not paths and not Path(_TESTS).is_dir():
        return None
    return declared_cases(paths or [_TESTS])


def _caseless(
    entries: Sequence[StoredBaseline], declared: Mapping[str, Declared]
) -> list[Caseless]:
    """Return the measured baselines without a case."""
    from pytest_dlperf.cli.declared_cases import without_case

    return [
        Caseless(
            case_id=entry.baseline.case_id,
            machine_class=entry.baseline.machine_class,
            path=str(entry.path),
        )
        for entry in without_case(entries, declared)
    ]
