"""Replay recorded live sessions: how they follow the machine's speed, and what is said of them.

``python benchmarks/live_replay.py`` reads the unchanged sessions of ``live_null.py`` in which the
machine's speed was sampled. The first tables have the slope of rates on that speed between
sessions, and how much slopes differ: by what is left of the difference of each two sessions of a
case, by how far the speed moved between them. The constants of ``judge/machine_speed.py`` are
from these.

The other tables judge each session by some of those before it, drawn at random, as it was measured
and with rates lower than measured: at the first look, by as many runs as that has, since further
ones were measured only where it was open. Neither do the draws differ much nor are the sessions
others than those of the first tables: a check of the rule against what it was made from.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pytest_dlperf.core.verdict import Judgement, Rule
from verdict_rules import ours

_LIVE: Final = Path(__file__).parent / "live"
#: How many sessions before the judged one may be stored; and draws for each judged one.
_BEFORE: Final = 11
DRAWS: Final = 4
#: With fewer sessions of a case in a row, too few draws differ.
_FEWEST: Final = 12
#: Ends of the classes of how far the machine's speed moved, in logs.
_MOVED: Final = (0.02, 0.04, 0.07, 0.10, 0.15, math.inf)
#: Runs of the first look at a case of CPUs.
_FIRST_LOOK: Final = 3
#: The cases of a live session, over which alpha is split.
_FAMILY: Final = 2
Block: TypeAlias = "Sequence[Sequence[ours.Run]]"


class Replayed(NamedTuple):
    """One judgement."""

    session: tuple[str, int]
    slower: float
    judgement: Judgement


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="outcomes.jsonl; default: all")
    parser.add_argument("--stored", default="1,5", help="how many stored sessions")
    parser.add_argument("--longer", default="0,10,20,40", help="by how many percent steps are")
    arguments = parser.parse_args()
    files = arguments.files or sorted(_LIVE.glob("*/outcomes.jsonl"))
    blocks = {
        f"{path.parent.name}, {case.partition('.')[0]}": block
        for path in files
        for case, block in sessions_in_a_row(path).items()
    }
    if not blocks:
        print(f"no file has {_FEWEST} unchanged sessions of a case in a row", file=sys.stderr)
        return 1
    print(f"{table_of_slopes(blocks)}\n\n{table_of_moves(blocks)}")
    longer = [float(one) / 100 for one in arguments.longer.split(",")]
    for count in map(int, arguments.stored.split(",")):
        found = [
            one for name, block in blocks.items() for one in replay(name, block, count, longer)
        ]
        print(f"\n{count} stored:\n\n{table(found)}")
    return 0


def sessions_in_a_row(path: Path) -> dict[str, Block]:
    """Return by case the unchanged sessions of a file, by time; none of a case with few."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    by_case: defaultdict[str, list[tuple[str, list[ours.Run]]]] = defaultdict(list)
    for line in lines:
        speeds = line.get("speeds", ())
        is_alone = line["planted"] == "0" and not line.get("neighbour")
        if not is_alone or not line["way"].startswith("stored") or not speeds:
            continue
        if len(speeds) == len(line["runs"]):
            runs = [
                ours.Run(by_time=rate, by_median=median, speed=speed, canary=canary)
                for (rate, median, canary, *_), speed in zip(line["runs"], speeds, strict=True)
            ]
            by_case[line["case"]].append((line["time"], runs))
    blocks = {
        case: [runs for _, runs in sorted(found, key=lambda one: one[0])]
        for case, found in by_case.items()
    }
    return {case: block for case, block in blocks.items() if len(block) >= _FEWEST}


def replay(name: str, block: Block, count: int, longer: Sequence[float]) -> Iterator[Replayed]:
    """Yield the judgements on each session by ``count`` of those before it."""
    draw = random.Random(name)
    for index in range(count + 1, len(block)):  # several draws differ
        for _ in range(DRAWS):
            before = range(max(0, index - _BEFORE), index)
            history = [block[other] for other in sorted(draw.sample(before, count))]
            noise = ours.learnt([history], "cpu")
            rule = Rule(family=_FAMILY, prior=noise)
            for share in longer:
                now = [_slower(run, share) for run in block[index][:_FIRST_LOOK]]
                judged = ours.judged_once(history, now, rule=rule, device="cpu")
                yield Replayed((name, index), share, judged)


def _slower(run: ours.Run, share: float) -> ours.Run:
    by_time, by_median = run.by_time / (1 + share), run.by_median / (1 + share)
    return replace(run, by_time=by_time, by_median=by_median)


def table(found: Sequence[Replayed]) -> str:
    """Return the table of verdicts, a row for each slowdown."""
    rows = [
        "| steps longer by | sessions | judgements | regressed | others |",
        "|---|---|---|---|---|",
    ]
    for slower in sorted({one.slower for one in found}):
        mine = [one for one in found if one.slower == slower]
        verdicts = Counter(str(one.judgement.verdict) for one in mine)
        alarms = verdicts.pop("regressed", 0)
        others = ", ".join(f"{n / len(mine):.1%} {name}" for name, n in verdicts.most_common())
        rows.append(
            f"| {slower:.0%} | {len({one.session for one in mine})} | {len(mine)} | "
            f"{alarms / len(mine):.1%} | {others} |"
        )
    return "\n".join(rows)


class Difference(NamedTuple):
    """Of two sessions of a case: logs."""

    speed: float
    rate: float
    #: The rate less what the slope between sessions of this case, in these hours, makes of it.
    left: float


def means(session: Sequence[ours.Run]) -> tuple[float, float]:
    """Return of a session the mean log speed and the log of the median rate."""
    speeds = [math.log(run.speed) for run in session if run.speed is not None]
    return statistics.fmean(speeds), math.log(statistics.median(run.by_time for run in session))


def slope_of(block: Block) -> float:
    """Return the least squares slope of the rates of sessions on the machine's speed, in logs."""
    speeds, rates = zip(*map(means, block), strict=True)
    return statistics.linear_regression(speeds, rates).slope


def differences(block: Block) -> list[Difference]:
    """Return the difference of each two sessions."""
    slope, found = slope_of(block), [means(session) for session in block]
    pairs = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.combinations(found, 2)]
    return [Difference(speed, rate, rate - slope * speed) for speed, rate in pairs]


def table_of_slopes(blocks: Mapping[str, Block]) -> str:
    """Return the table of slopes between sessions, a row for each case of each file."""
    rows = ["| | sessions | slope | rates vary by | is left |", "|---|---|---|---|---|"]
    for name, block in blocks.items():
        speeds, rates = zip(*map(means, block), strict=True)
        slope = slope_of(block)
        left = [rate - slope * speed for speed, rate in zip(speeds, rates, strict=True)]
        rows.append(
            f"| {name} | {len(block)} | {slope:.2f} | {statistics.pstdev(rates):.1%} | "
            f"{statistics.pstdev(left):.1%} |"
        )
    return "\n".join(rows)


def table_of_moves(blocks: Mapping[str, Block]) -> str:
    """Return the table of what is left of differences, by how far the machine's speed moved.

    What is left beyond that of a machine that stayed, over the move, is how much slopes differ.
    """
    rows = [
        "| the speed moved by | differences | as measured | is left | slopes differ by |",
        "|---|---|---|---|---|",
    ]
    found = [one for block in blocks.values() for one in differences(block)]
    start, still = 0.0, 0.0
    for end in _MOVED:
        mine = [one for one in found if start <= abs(one.speed) < end]
        if mine:
            moved, left = _size([one.speed for one in mine]), _size([one.left for one in mine])
            still = still or left
            more = math.sqrt(max(0.0, left**2 - still**2)) / moved if start else None
            rows.append(
                f"| {start:.0%} to {'' if end == math.inf else f'{end:.0%}'} | {len(mine)} | "
                f"{_size([one.rate for one in mine]):.1%} | {left:.1%} | "
                f"{'' if more is None else f'{more:.2f}'} |"
            )
        start = end
    return "\n".join(rows)


def _size(values: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


if __name__ == "__main__":
    sys.exit(main())
