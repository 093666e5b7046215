"""Live verdicts, for hours: sessions of unchanged suites, and of suites slowed by known shares.

By hand, on a clean working tree: ``tox -e bench-live -- --hours=4``. Each session is drawn from
all kinds: judged against one stored session, against five, by pairs in lock-step, by alternating
launches; and unchanged, or slowed. Every outcome is a line of a file, which a later start goes on
with. The table has the share of alarms with its interval, how much pairs and runs vary, and how
far from zero the changes of unchanged cases are: as judged, and as measured.

``two-stages`` is the gate as it is: code that changed since a session was stored, by default
options. Stored is a commit, and its child has a comment more in each file of the suites, so that
unchanged cases go to pairs as well.

With ``--neighbour`` another program uses the cores in bursts of 0.2 to 5 s. It is in a PID
namespace that the sessions cannot see into, as another container is (``unshare``, as root).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from arm_bias import interval as mean_interval
from verdict_study.tally import interval

ROOT = Path(__file__).parents[1]
#: How a case is judged -> the options of its session. The long windows of launches that alternate
#: last as long as those of lock-step, for cases with steps of some milliseconds.
WAYS: Final = {
    "lock-step": ("--dlperf-against=HEAD", "--dlperf-pairs=lock-step"),
    "alternating": ("--dlperf-against=HEAD", "--dlperf-pairs=alternating"),
    "alternating-long": (
        "--dlperf-against=HEAD",
        "--dlperf-pairs=alternating",
        "--dlperf-iterations=800",
    ),
    "stored-1": ("--dlperf-confirm=never",),
    "stored-5": ("--dlperf-confirm=never",),
    "two-stages": (),
}
#: Ways that are judged by stored sessions first.
_BY_STORED: Final = frozenset({"stored-1", "stored-5", "two-stages"})


#: A PID namespace of its own for the command that follows.
_APART: Final = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_BURSTS: Final = """
import random, time
while True:
    time.sleep(random.uniform(1, 10))
    end = time.monotonic() + random.uniform(0.2, 5)
    while time.monotonic() < end:
        sum(range(1000))
"""
#: How many sessions ``stored-5`` has.
_STORED: Final = 5


class Kind(NamedTuple):
    """A kind of session."""

    way: str
    #: By how much each step is made longer, as ``--dlperf-inject`` has it; ``0`` for nothing.
    planted: str


def main() -> int:
    """Run sessions until the time is over, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="cases", default="tiny and torch and fp32")
    parser.add_argument("--cpus", default="1")
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--planted", default="0,0,5%,10%,20%,40%", help="each as often as named")
    parser.add_argument(
        "--kinds", help="in place of all ways with all that is planted: lock-step:0,stored-1:20%%"
    )
    parser.add_argument("--max-runs", type=int, default=0, help="of a case; 0 for its protocol's")
    parser.add_argument("--neighbour", action="store_true", help="another program has bursts")
    parser.add_argument("--folder", type=Path, default=ROOT / ".dlperf/live-null")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / "outcomes.jsonl"
    if not arguments.table:
        ways, planted = arguments.ways.split(","), arguments.planted.split(",")
        asked = arguments.kinds or ",".join(map(":".join, itertools.product(ways, planted)))
        kinds = [Kind(*kind.partition(":")[::2]) for kind in asked.split(",")]
        if unknown := [kind for kind in kinds if kind.way not in WAYS or not kind.planted]:
            parser.error(f"{unknown[0].way}: say WAY:PLANTED, with one of {', '.join(WAYS)}")
        measure(kinds, arguments, folder, lines)
    if not lines.exists():
        print(f"{lines} is not there: nothing was measured", file=sys.stderr)
        return 1
    outcomes = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    print(table(outcomes))
    return 0


def measure(kinds: list[Kind], arguments: argparse.Namespace, folder: Path, lines: Path) -> None:
    """Run sessions of random kinds until the time is over; append their outcomes to ``lines``."""
    end_s = time.monotonic() + arguments.hours * 3600
    apart = _APART if arguments.neighbour else ()
    session = [*apart, sys.executable, "-m", "pytest", "perf_tests", "-q", "-k", arguments.cases]
    session.append(f"--cpus={arguments.cpus}")
    if arguments.max_runs:
        session.append(f"--dlperf-max-runs={arguments.max_runs}")
    # What is stored beside a neighbour knows it
    stored = folder / "neighbour" if arguments.neighbour else folder
    five, later, tree = stored / "stored-5", stored / "stored-5.later", folder / "tree"
    asked = {"neighbour": arguments.neighbour, "max_runs": arguments.max_runs}
    draw = random.Random()
    deck: list[Kind | None] = []
    with bursts() if arguments.neighbour else contextlib.nullcontext() as neighbour:
        while time.monotonic() < end_s:
            if neighbour is not None and neighbour.poll() is not None:
                raise RuntimeError(
                    f"the neighbour ended with {neighbour.returncode}: is this root?"
                )
            if not deck:
                deck = next_deck(kinds, five, later, draw)
                store_one({kind.way for kind in kinds}, stored, session, tree)
            kind = deck.pop()
            if kind is None:
                store(later, session)
                continue
            options = [*session, *WAYS[kind.way]]
            if kind.way in _BY_STORED:
                options.append(f"--dlperf-baselines={stored / kind.way}")
            if kind.planted != "0":
                options.append(f"--dlperf-inject={kind.planted}")
            with lines.open("a", encoding="utf-8") as file:
                for outcome in run(options, tree if kind.way == "two-stages" else ROOT):
                    line = facts(kind, outcome) | asked
                    file.write(json.dumps(line) + "\n")
                    print(line["way"], line["planted"], line["case"], line["verdict"], flush=True)


def store_one(ways: set[str], stored: Path, session: list[str], tree: Path) -> None:
    """Store again what has one session: what is judged by one shares its error."""
    if "stored-1" in ways:
        shutil.rmtree(stored / "stored-1", ignore_errors=True)
        store(stored / "stored-1", session)
    if "two-stages" in ways:
        shutil.rmtree(stored / "two-stages", ignore_errors=True)
        commits = commits_in(tree)
        check_out(tree, commits.stored)
        store(stored / "two-stages", session, tree)
        check_out(tree, commits.now)


class Commits(NamedTuple):
    """Two commits with the same training, and a comment more in the second one."""

    stored: str
    now: str


def commits_in(tree: Path) -> Commits:
    """Return the commits of ``tree``, a clone of this repository that is made where it is not."""
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
        for path in (tree / "perf_tests").rglob("*.py"):
            path.write_text(f"{path.read_text('utf-8')}# One comment more\n", encoding="utf-8")
        who = ["-c", "user.name=live", "-c", "user.email=live@example.org"]
        commit = ["commit", "--quiet", "--all", "--message=A comment more in each file"]
        subprocess.run(["git", "-C", tree, *who, *commit], check=True)
        subprocess.run(["git", "-C", tree, "branch", "--quiet", "commented"], check=True)
    command = ["git", "-C", str(tree), "rev-parse", "commented~1", "commented"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Commits(*printed.split())


def check_out(tree: Path, commit: str) -> None:
    """Check ``commit`` out in ``tree``."""
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "--detach", commit], check=True)


def next_deck(
    kinds: list[Kind], five: Path, later: Path, draw: random.Random
) -> list[Kind | None]:
    """Return the next sessions in random order; None for one that is stored in ``later``.

    So the five that a deck is judged by were stored all through the deck before it: sessions one
    after the other would show little of how far sessions differ. The first deck has none of these.
    """
    if not any(kind.way == "stored-5" for kind in kinds):
        return draw.sample(kinds, len(kinds))
    if count_stored(later) >= _STORED:
        shutil.rmtree(five, ignore_errors=True)
        later.rename(five)
    ready = [kind for kind in kinds if kind.way != "stored-5" or count_stored(five) >= _STORED]
    deck = [*ready, *[None] * (_STORED - count_stored(later))]
    return draw.sample(deck, len(deck))


def count_stored(baselines: Path) -> int:
    """Return how many sessions each case has in ``baselines``: the fewest that one has."""
    read = [json.loads(path.read_text("utf-8")) for path in baselines.rglob("*.json")]
    return min((len(one["sessions"]) for one in read if "sessions" in one), default=0)


def store(baselines: Path, session: list[str], root: Path = ROOT) -> None:
    """Store one more session in ``baselines``; raise ``RuntimeError`` where a case has none."""
    count = count_stored(baselines)
    baselines.mkdir(parents=True, exist_ok=True)
    # Runs that vary too much to certify anything need a reason; one that is called slower would
    # begin a new level, of one session
    stored = ("--update-baselines", "--dlperf-reason=live", "--dlperf-tolerance=90%")
    outcomes = run([*session, f"--dlperf-baselines={baselines}", *stored], root)
    if not outcomes or count_stored(baselines) != count + 1:
        raise RuntimeError(
            f"{baselines}: a session was not stored: {[o['judgement'] for o in outcomes]}"
        )


@contextlib.contextmanager
def bursts() -> Iterator[subprocess.Popen[bytes]]:
    """Let another program, in a PID namespace of its own, use a core for 0.2 to 5 s at a time."""
    neighbour = subprocess.Popen([*_APART, sys.executable, "-c", _BURSTS])
    try:
        yield neighbour
    finally:
        neighbour.kill()
        neighbour.wait()


def run(session: list[str], root: Path = ROOT) -> list[dict[str, Any]]:
    """Run a session in the folder ``root``; return the outcomes that it had time for.

    Its output is printed if it wrote none.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [*session, f"--dlperf-json={results}"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if not results.exists():
            print(done.stdout + done.stderr, file=sys.stderr)
            return []
        outcomes = json.loads(results.read_text("utf-8"))["outcomes"]
        return [outcome for outcome in outcomes if not outcome["interrupted"]]


def facts(kind: Kind, outcome: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of an outcome: the verdict, and the rates of its runs."""
    judgement = outcome["judgement"]
    second = outcome["confirmation"] or {}
    against = outcome["against"] or second.get("against") or {}
    measurement = second.get("measurement") or outcome["measurement"]
    return {
        "way": kind.way,
        "planted": kind.planted,
        "case": outcome["case"]["id"],
        "time": outcome["time"],
        "elapsed_s": round(outcome["elapsed_s"], 1),
        "verdict": judgement["verdict"],
        "reason": "" if judgement["verdict"] == "passed" else judgement["reason"],
        "change": judgement["change"],
        "interval": judgement["interval"],
        # What stored sessions alone said, and the runs that they judged, where pairs followed
        "by_stored": second["stored"]["verdict"] if second else None,
        "runs_of_stored": rates(outcome["measurement"]) if second else [],
        "runs": rates(measurement),
        "before": rates(against.get("measurement")),
        "stored": len(outcome["baseline_sessions"]),
        "stored_runs": [kept(session) for session in outcome["baseline_sessions"]],
        "iterations": outcome["case"]["protocol"]["iterations"],
    }


def rates(measurement: dict[str, Any] | None) -> list[list[float]]:
    """Return of each run throughput, rate of the median step, canary, and medians of turns."""
    rows = []
    for launch in measurement["runs"] if measurement else ():
        turns = [*launch["turns"], len(launch["step_seconds"])] if launch["turns"] else []
        medians = [
            statistics.median(launch["step_seconds"][first:end])
            for first, end in itertools.pairwise(turns)
        ]
        canary_rates = launch["canary"]
        canary = canary_rates.get("matmul_gflop_per_s") or canary_rates.get(
            "sustained_matmul_gflop_per_s", 0.0
        )
        figures = [
            launch["throughput"],
            launch["estimates"].get("median_step", 0.0),
            canary,
            *medians,
        ]
        rows.append([float(f"{value:.5g}") for value in figures])
    return rows


def kept(session: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a stored session, so that its verdict can be judged again."""
    figures = {
        "runs": session["runs"],
        "median_step": session["estimates"].get("median_step", []),
        "canary": [session["canary"].get("matmul_gflop_per_s", 0.0)],
    }
    return {
        name: [float(f"{value:.5g}") for value in values] for name, values in figures.items()
    } | {"time": session["time"]}


def table(outcomes: list[dict[str, Any]]) -> str:
    """Return the table of all outcomes: a row for each way and planted share."""
    rows = [
        "| way | neighbour | planted | outcomes | regressed | 95 % interval | others | a case | "
        "longest | varies by | changes | mean of pairs |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    of_kind: dict[tuple[str, bool, float], list[dict[str, Any]]] = {}
    for outcome in outcomes:
        planted = float(outcome["planted"].rstrip("%"))
        of_kind.setdefault((outcome["way"], outcome.get("neighbour", False), planted), []).append(
            outcome
        )
    for (way, neighbour, planted), of_row in sorted(of_kind.items()):
        verdicts = Counter(outcome["verdict"] for outcome in of_row)
        alarms = verdicts.pop("regressed", 0)
        share, low, high = interval(alarms, len(of_row))
        further = ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
        took_s = [outcome["elapsed_s"] for outcome in of_row]
        size = None if planted else size_of_changes(of_row)
        bias = "" if planted else mean_of_pairs(of_row)
        rows.append(
            f"| {way} | {'bursts' if neighbour else ''} | {planted:g} % | {len(of_row)} | "
            f"{100 * share:.0f} % | {100 * low:.0f} to {100 * high:.0f} % | {further or 'none'} | "
            f"{statistics.median(took_s):.0f} s | {max(took_s):.0f} s | "
            f"{_percent(spread(of_row))} | {_percent(size)} | {bias} |"
        )
    return "\n".join(rows)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def mean_of_pairs(outcomes: list[dict[str, Any]]) -> str:
    """Return the mean difference of pairs with its interval of 95 %: of unchanged ones, a bias."""
    pairs = [one for outcome in outcomes if outcome["before"] for one in logs(outcome)]
    if len(pairs) < 2:
        return ""
    low, high = mean_interval(pairs)
    return f"{100 * low:+.2f} to {100 * high:+.2f} % ({len(pairs)} pairs)"


def size_of_changes(outcomes: list[dict[str, Any]]) -> float | None:
    """Return the root mean square of the log changes of outcomes; None where none has one.

    Of unchanged cases they are errors.
    """
    changes = [one["change"] for one in outcomes if one.get("change") is not None]
    if not changes:
        return None
    return math.sqrt(statistics.fmean(math.log1p(change) ** 2 for change in changes))


def spread(outcomes: list[dict[str, Any]]) -> float | None:
    """Return the standard deviation of the log differences of pairs, or of log rates of runs.

    Within an outcome, pooled over all; by pairs of turns where there are such, else by the rate of
    the median step. None where no outcome has two.
    """
    squares, freedom = 0.0, 0
    for one in outcomes:
        values = logs(one)
        if len(values) > 1:
            squares += statistics.variance(values) * (len(values) - 1)
            freedom += len(values) - 1
    return math.sqrt(squares / freedom) if freedom else None


def logs(outcome: dict[str, Any]) -> list[float]:
    """Return the log difference of each pair of an outcome, or the log rate of each run."""
    if outcome["before"]:
        return differences(outcome["runs"], outcome["before"])
    return [math.log(run[1]) for run in outcome["runs"]]


def differences(runs: list[list[float]], before: list[list[float]]) -> list[float]:
    """Return the log difference of each pair of runs."""
    of_pairs = []
    for launch, earlier in zip(runs, before, strict=True):
        turns = [math.log(b / a) for a, b in zip(launch[3:], earlier[3:], strict=True)]
        of_pairs.append(statistics.median(turns) if turns else math.log(launch[1] / earlier[1]))
    return of_pairs


if __name__ == "__main__":
    sys.exit(main())
