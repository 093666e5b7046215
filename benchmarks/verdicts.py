"""Our verdict against those of peers: false alarms, slowdowns found, and what they cost."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import verdict_rules
from verdict_study import picture, table, tradeoff
from verdict_study.published import published
from verdict_study.recorded import recordings
from verdict_study.simulation import NOISE, Simulation
from verdict_study.tally import Tally
from verdict_study.trial import (
    EQUAL_INTERLEAVED,
    EQUAL_STORED,
    INTERLEAVED,
    STORED,
    Margins,
    try_ours,
    try_peers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from verdict_study.data import DataSet
    from verdict_study.table import Results

ROOT: Final = Path(__file__).parents[1]
SHARED: Final = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared"))
#: Suites of a data set: for our rules, and for peers, some of which are slow.
LONG: Final = (400, 40)
SHORT: Final = (20, 1)


def options() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few suites: about a minute")
    parser.add_argument("--suites", type=int, help="suites a data set, for our rules")
    parser.add_argument("--peer-suites", type=int, help="suites a data set, for peers")
    parser.add_argument("--only", action="append", help="only this data set; may be repeated")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--min-effect", type=float, default=0.005)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / ".dlperf" / "bench-verdicts")
    asked = parser.parse_args()
    most, fewer = SHORT if asked.short else LONG
    asked.suites = asked.suites or most
    asked.peer_suites = min(asked.peer_suites or fewer, asked.suites)
    return asked


def data_sets(margins: Margins) -> tuple[DataSet, ...]:
    """Return the data sets that are here; recorded ones only where the recordings are."""
    at_tolerance = {table.times_tolerance(margins, times) for times in (1.0, 1.5)}
    truths = tuple(sorted({0.0, 0.02, 0.03, 0.05} | at_tolerance))
    simulated = tuple(Simulation(level=level, truths=truths) for level in (*NOISE, "mixed"))
    noise = SHARED / "noise"
    if not noise.is_dir():
        return simulated
    return (*simulated, *recordings(noise), published(noise, truths))


def _parts(count: int, size: int) -> Iterable[range]:
    return (range(start, min(start + size, count)) for start in range(0, count, size))


def study(
    sets: tuple[DataSet, ...], margins: Margins, asked: argparse.Namespace
) -> dict[str, dict[tuple[str, str], Tally]]:
    """Return the tallies of every rule, by data set."""
    tallies: dict[str, dict[tuple[str, str], Tally]] = {data.name: {} for data in sets}

    def gather(started: list[tuple[DataSet, Future[dict[tuple[str, str], Tally]]]]) -> None:
        for data, future in started:
            for key, tally in future.result().items():
                tallies[data.name].setdefault(key, Tally()).add(tally)

    # Rates of what is found need fewer cases than those of false alarms.
    slowed = max(asked.peer_suites, asked.suites // 4)
    with ProcessPoolExecutor(asked.processes) as pool:
        gather(
            [
                (data, pool.submit(try_ours, data, margins, asked.seed, part, slowed))
                for data in sets
                for part in _parts(asked.suites, 20)
            ]
        )
        gather(
            [
                (data, pool.submit(try_peers, data, costs(tallies[data.name]), asked.seed, part))
                for data in sets
                for part in _parts(asked.peer_suites, 1)
            ]
        )
    return tallies


def costs(results: Results) -> dict[str, int]:
    """Return the runs a side that peers get where they are to cost what ours do."""
    return {
        EQUAL_STORED: round(results[STORED, STORED].mean_runs()),
        EQUAL_INTERLEAVED: round(results[INTERLEAVED, INTERLEAVED].mean_runs() / 2),
    }


def main() -> int:
    """Write ``verdicts.md`` and two pictures; return 1 where a peer cannot be called."""
    asked = options()
    margins = Margins(tolerance=asked.tolerance, min_effect=asked.min_effect, alpha=asked.alpha)
    sets = data_sets(margins)
    names = [data.name for data in sets]
    if unknown := set(asked.only or ()) - set(names):
        print(
            f"no data set {', '.join(sorted(unknown))}; here are {', '.join(names)}",
            file=sys.stderr,
        )
        return 2
    sets = tuple(data for data in sets if not asked.only or data.name in asked.only)
    began_s = time.perf_counter()
    results = study(sets, margins, asked)
    missing = verdict_rules.load()[1]
    absent = None if (SHARED / "noise").is_dir() else SHARED / "noise"
    text = table.markdown(sets, results, margins, missing, absent, asked.seed)
    text += "\n" + tradeoff.markdown(sets, margins, asked.seed)
    asked.output.mkdir(parents=True, exist_ok=True)
    (asked.output / "verdicts.md").write_text(text, encoding="utf-8")
    print(text)
    simulated = [data for data in sets if isinstance(data, Simulation)]
    if simulated:
        picture.draw(simulated, results, asked.output / "verdicts.png")
    tradeoff.draw(sets, margins, asked.seed, asked.output / "tradeoff.png")
    print(f"{time.perf_counter() - began_s:.0f} s; written to {asked.output}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
