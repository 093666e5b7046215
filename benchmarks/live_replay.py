"""Replay recorded live sessions: what stored sessions say of one that is unchanged, or slower.

``python benchmarks/live_replay.py`` reads the unchanged sessions of ``live_null.py`` that were
judged by stored sessions, twelve of a case in a row at least, and judges each of them by some of
those before it, drawn at random, as it was measured and with rates lower than measured. Looks go
on as far as runs were measured. The draws of a session differ little, so that shares have no
interval.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pytest_dlperf.core.verdict import GOOD, Judgement, Rule
from verdict_rules import ours

_LIVE: Final = Path(__file__).parent / "live"
#: How many sessions before the judged one may be stored; and draws for each judged one.
_BEFORE: Final = 11
DRAWS: Final = 4
#: With fewer sessions of a case in a row, too few draws differ.
_FEWEST: Final = 12
#: The cases of a live session, over which alpha is split.
FAMILY: Final = 2
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
    parser.add_argument("--longer", default="0,5,10,20", help="by how many percent steps are")
    parser.add_argument("--tolerance", type=float, default=5, help="in percent")
    arguments = parser.parse_args()
    blocks = blocks_of(arguments.files)
    if not blocks:
        print(f"no file has {_FEWEST} unchanged sessions of a case in a row", file=sys.stderr)
        return 1
    longer = [float(percent) / 100 for percent in arguments.longer.split(",")]
    rule = Rule(family=FAMILY, tolerance=arguments.tolerance / 100)
    for count in map(int, arguments.stored.split(",")):
        print(f"\n{count} stored:\n\n{table(replayed(blocks, count, longer, rule))}")
    return 0


def blocks_of(files: Sequence[Path] = ()) -> dict[str, Block]:
    """Return by file and case the unchanged sessions in a row; of all recordings without files."""
    return {
        f"{path.parent.name}, {case.partition('.')[0]}": block
        for path in files or sorted(_LIVE.glob("*/outcomes.jsonl"))
        for case, block in sessions_in_a_row(path).items()
    }


def sessions_in_a_row(path: Path) -> dict[str, Block]:
    """Return by case the unchanged sessions of a file, by time; none of a case with few."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    by_case: defaultdict[str, list[tuple[str, list[ours.Run]]]] = defaultdict(list)
    for line in lines:
        is_alone = line["planted"] == "0" and not line.get("neighbour")
        if is_alone and line["way"].startswith("stored") and line["runs"]:
            runs = [
                ours.Run(by_time=rate, by_median=median, canary=canary)
                for rate, median, canary, *_ in line["runs"]
            ]
            by_case[line["case"]].append((line["time"], runs))
    blocks = {
        case: [runs for _, runs in sorted(timed, key=lambda entry: entry[0])]
        for case, timed in by_case.items()
    }
    return {case: block for case, block in blocks.items() if len(block) >= _FEWEST}


def replayed(
    blocks: Mapping[str, Block], count: int, longer: Sequence[float], rule: Rule
) -> list[Replayed]:
    """Return the judgements on all sessions of all blocks by ``count`` stored ones."""
    return [
        judged
        for name, block in blocks.items()
        for judged in replay(name, block, count, longer, rule)
    ]


def replay(
    name: str, block: Block, count: int, longer: Sequence[float], rule: Rule
) -> Iterator[Replayed]:
    """Yield the judgements on each session by ``count`` of those before it."""
    draw = random.Random(name)
    for index in range(count + 1, len(block)):  # several draws differ
        for _ in range(DRAWS):
            before = range(max(0, index - _BEFORE), index)
            history = [block[earlier] for earlier in sorted(draw.sample(before, count))]
            for share in longer:
                now = [_slower(run, share) for run in block[index]]
                judged = ours.judged_by_looks(history, now, rule=rule, device="cpu")
                yield Replayed((name, index), share, judged)


def _slower(run: ours.Run, share: float) -> ours.Run:
    by_time, by_median = run.by_time / (1 + share), run.by_median / (1 + share)
    return replace(run, by_time=by_time, by_median=by_median)


def table(judgements: Sequence[Replayed]) -> str:
    """Return the table of verdicts, a row for each slowdown."""
    rows = [
        "| steps longer by | sessions | judgements | certified | regressed | others |",
        "|---|---|---|---|---|---|",
    ]
    for slower in sorted({judged.slower for judged in judgements}):
        equal = [judged for judged in judgements if judged.slower == slower]
        verdicts = Counter(str(judged.judgement.verdict) for judged in equal)
        sessions = len({judged.session for judged in equal})
        alarms = verdicts.pop("regressed", 0)
        certified = sum(verdicts.pop(str(good), 0) for good in GOOD)
        further = ", ".join(f"{n / len(equal):.1%} {name}" for name, n in verdicts.most_common())
        rows.append(
            f"| {slower:.0%} | {sessions} | {len(equal)} | "
            f"{certified / len(equal):.1%} | {alarms / len(equal):.1%} | "
            f"{further or 'none'} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
