"""Bias of an arm: pairs of equal code, one side in its worktree, and their mean difference.

By hand, on a clean working tree: ``tox -e bench-arms -- --pairs=200``. Each session has some pairs
in lock-step against ``HEAD``, which is the same code in another folder. Every session of a case is
a line of a file, which a later start goes on with. The table has the mean of the pairs'
differences, the working tree's rate against the other one's, with its interval: by pairs, and by
the means of sessions, which what a session draws once would move together.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from scipy import stats

from pytest_dlperf.core.outcome import Outcome, outcome_from_json
from pytest_dlperf.judge.evidence.pairs import rates_in_turns

ROOT: Final = Path(__file__).parents[1]
#: The largest bias that may be, a share.
GOAL: Final = 0.003
_CONFIDENCE: Final = 0.95


def main() -> int:
    """Measure until each case has as many pairs as wanted, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="cases", default="tiny and torch and fp32")
    parser.add_argument("--cpus", default="1")
    parser.add_argument("--pairs", type=int, default=200, help="of each case")
    parser.add_argument("--block", type=int, default=10, help="pairs of a session")
    parser.add_argument("--file", type=Path, default=ROOT / ".dlperf/arm-bias.jsonl")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    arguments = parser.parse_args()
    file: Path = arguments.file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    while not arguments.table and fewest_pairs(read(file)) < arguments.pairs:
        measured = session(arguments.cases, arguments.cpus, arguments.block)
        with file.open("a", encoding="utf-8") as lines:
            for line in measured:
                lines.write(json.dumps(line) + "\n")
                print(
                    line["case"],
                    f"{100 * statistics.mean(line['differences']):+.2f} %",
                    flush=True,
                )
    if not (lines_of_file := read(file)):
        print(f"{file} is not there: nothing was measured", file=sys.stderr)
        return 1
    print(table(lines_of_file))
    return 0


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of ``file``; none without it."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def fewest_pairs(lines: Iterable[dict[str, Any]]) -> int:
    """Return how many pairs the case has that has the fewest."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["case"]] = counts.get(line["case"], 0) + len(line["differences"])
    return min(counts.values(), default=0)


def session(cases: str, cpus: str, pairs: int) -> list[dict[str, Any]]:
    """Run a session of so many pairs of each case; return what is kept of it.

    Raises ``RuntimeError`` where it measured nothing, or something else than a null.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [sys.executable, "-m", "pytest", "perf_tests", "-q", "-k", cases]
        command += [f"--cpus={cpus}", "--dlperf-against=HEAD", "--dlperf-pairs=lock-step"]
        command += [f"--dlperf-runs={pairs}", "--dlperf-explain=never", "--dlperf-history=off"]
        command.append(f"--dlperf-json={results}")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not results.exists():
            raise RuntimeError(done.stdout + done.stderr)
        values = json.loads(results.read_text("utf-8"))["outcomes"]
    return [facts(outcome_from_json(one)) for one in values]


def facts(outcome: Outcome) -> dict[str, Any]:
    """Return what is kept of an outcome; raise ``RuntimeError`` if it is of no null."""
    against, measurement = outcome.against, outcome.measurement
    before = None if against is None else against.measurement
    if measurement is None or before is None or "this was a null" not in outcome.judgement.reason:
        raise RuntimeError(f"{outcome.case.id}: no null: {outcome.judgement.reason}")
    rates = rates_in_turns(measurement.runs, before.runs)
    if rates is None:
        raise RuntimeError(f"{outcome.case.id}: its pairs were not in lock-step")
    windows = zip(measurement.throughputs, before.throughputs, strict=True)
    return {
        "case": outcome.case.id,
        "time": outcome.time,
        "commit": outcome.commit,
        # Of median iterations, as verdicts are made of them, and of whole windows
        "differences": [_log_ratio(*pair) for pair in zip(*rates, strict=True)],
        "whole_windows": [_log_ratio(*pair) for pair in windows],
        "verdict": outcome.judgement.verdict.value,
    }


def _log_ratio(now: float, before: float) -> float:
    return round(math.log(now / before), 6)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the table of each case and of all together, in Markdown."""
    rows = [
        "| case | sessions | pairs | a pair varies by | mean difference | by sessions | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    cases = sorted({line["case"] for line in lines})
    for name in [*cases, *(["all"] if len(cases) > 1 else [])]:
        of_case = [line["differences"] for line in lines if name in {line["case"], "all"}]
        pairs = [difference for several in of_case for difference in several]
        low, high = interval(pairs)
        by_sessions = interval([statistics.mean(several) for several in of_case])
        met = "met" if max(-low, high) < GOAL else "not shown"
        rows.append(
            f"| {name} | {len(of_case)} | {len(pairs)} | {100 * statistics.stdev(pairs):.2f} % "
            f"| {_words(statistics.mean(pairs), (low, high))} "
            f"| {100 * by_sessions[0]:+.2f} to {100 * by_sessions[1]:+.2f} % | {met} |"
        )
    return "\n".join(rows)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the two-sided interval of the mean by Student's t; infinite for one value."""
    if len(values) < 2:
        return (-math.inf, math.inf)
    half = stats.t.ppf((1 + _CONFIDENCE) / 2, len(values) - 1)
    half *= statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.mean(values)
    return mean - half, mean + half


def _words(mean: float, ends: tuple[float, float]) -> str:
    return f"{100 * mean:+.2f} % ({100 * ends[0]:+.2f} to {100 * ends[1]:+.2f} %)"


if __name__ == "__main__":
    raise SystemExit(main())
