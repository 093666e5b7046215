"""``dlperf nodes``: which node is slow over all cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cli.stdout import say
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import Rule

if TYPE_CHECKING:
    import argparse

    from pytest_dlperf.core.baseline import Baseline

#: Where baselines are looked for if no folder is named.
_BASELINES: Final = Path("baselines")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf``."""
    nodes = commands.add_parser(
        "nodes",
        help="which node is slow over all cases",
        description="From stored sessions, and from results files where they are named.",
    )
    nodes.add_argument("results", nargs="*", type=Path, help="files of --dlperf-json")
    nodes.add_argument(
        "--baselines", type=Path, metavar="DIR", help="folder of the baselines (baselines/ here)"
    )
    nodes.add_argument("--alpha", metavar="SHARE", default="5%", help="3%% or 0.03")
    nodes.add_argument("--json", action="store_true", help="JSON alone on standard output")
    nodes.set_defaults(run=_nodes)


def _nodes(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.node_rates import compare_nodes
    from pytest_dlperf.core.codec import encode
    from pytest_dlperf.report import json_, nodes_text
    from pytest_dlperf.report.nodes_schema import FORMAT

    alpha = Rule(alpha=parse_share(arguments.alpha, what="--alpha")).alpha
    outcomes = [outcome for path in arguments.results for outcome in json_.read(path)]
    found = compare_nodes(_baselines(arguments), outcomes, alpha=alpha)
    if arguments.json:
        values = {"format": FORMAT, **encode(found)}
        text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
    else:
        text = nodes_text.render(found)
    say(text)
    return 0


def _baselines(arguments: argparse.Namespace) -> list[Baseline]:
    """Return what is stored; a folder that nobody named need not be there beside results."""
    from pytest_dlperf.store.baseline.store import BaselineStore

    root: Path = arguments.baselines or _BASELINES
    if not root.is_dir():
        if arguments.baselines is None and arguments.results and not root.exists():
            return []
        raise UsageError(f"{root} is no folder; name the baselines with --baselines=DIR")
    return [entry.baseline for entry in BaselineStore(root).all()]
