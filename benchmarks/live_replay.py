"""Replay recorded live sessions: each judged by stored ones of the hour before it.

``python benchmarks/live_replay.py`` reads the unchanged sessions of ``live_null.py`` in which the
machine's speed was sampled, and takes for each of them stored sessions from those before it, at
random. They are judged as they were measured, and with rates lower than measured, at the first
look: what more runs would show is not recorded. So it has many more judgements than the live
hours had, of the same sessions: they are not independent, and have no interval.

The second table shows how well the machine's speed is taken out, by how far it moved.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.verdict import Judgement, Rule
from verdict_rules import ours

_LIVE: Final = Path(__file__).parent / "live"
#: How many sessions before the judged one may be stored; and draws for each judged one.
_BEFORE: Final = 11
DRAWS: Final = 4
#: With fewer sessions of a case in a row, too few draws differ.
_FEWEST: Final = 12
#: Ends of the classes of how far the machine's speed moved, in logs.
_MOVED: Final = (-0.10, -0.06, -0.03, 0.03, math.inf)


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
    blocks = [block for path in files for block in sessions_in_a_row(path)]
    if not blocks:
        print(f"no file has {_FEWEST} unchanged sessions of a case in a row", file=sys.stderr)
        return 1
    longer = [float(one) / 100 for one in arguments.longer.split(",")]
    for count in map(int, arguments.stored.split(",")):
        found = [
            one
            for name, block in enumerate(blocks)
            for one in replay(str(name), block, count, longer)
        ]
        print(f"\n{count} stored:\n\n{table(found)}\n\n{table_of_moves(found)}")
    return 0


def sessions_in_a_row(path: Path) -> list[list[list[ours.Run]]]:
    """Return for each case of a file its unchanged sessions, by time; none of a case with few."""
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
    blocks = [
        [runs for _, runs in sorted(found, key=lambda one: one[0])] for found in by_case.values()
    ]
    return [block for block in blocks if len(block) >= _FEWEST]


def replay(
    name: str, block: Sequence[Sequence[ours.Run]], count: int, longer: Sequence[float]
) -> Iterator[Replayed]:
    """Yield the judgements on each session by ``count`` of those before it."""
    draw = random.Random(name)
    for index in range(count, len(block)):
        for _ in range(DRAWS):
            before = range(max(0, index - _BEFORE), index)
            history = [block[other] for other in sorted(draw.sample(before, count))]
            noise = ours.learnt([history], "cpu")
            rule = Rule(prior=noise)
            for share in longer:
                now = [_slower(run, share) for run in block[index]]
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


def table_of_moves(found: Sequence[Replayed]) -> str:
    """Return the table of what unchanged sessions were off by, by how far the speed moved.

    What they were off by is the root mean square of log changes, as judged and as measured.
    """
    rows = [
        "| the machine's speed moved by | judgements | slope | off by | as measured | mean |",
        "|---|---|---|---|---|---|",
    ]
    start = -math.inf
    for end in _MOVED:
        mine = [
            one.judgement.throughput
            for one in found
            if not one.slower
            and one.judgement.throughput.machine_change is not None
            and start <= math.log1p(one.judgement.throughput.machine_change) < end
        ]
        changes = [math.log1p(one.change) for one in mine if one.change is not None]
        raw = [math.log1p(one.measured_change) for one in mine if one.measured_change is not None]
        slopes = [one.machine_slope for one in mine if one.machine_slope is not None]
        if changes and raw and slopes:
            low = "" if start == -math.inf else f"{start:+.0%} "
            rows.append(
                f"| {low}to {'' if end == math.inf else f'{end:+.0%}'} | {len(mine)} | "
                f"{statistics.fmean(slopes):.2f} | {_size(changes):.1%} | {_size(raw):.1%} | "
                f"{statistics.fmean(changes):+.1%} |"
            )
        start = end
    return "\n".join(rows)


def _size(values: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


if __name__ == "__main__":
    sys.exit(main())
