"""What the verdict says in worlds of anyone's making: alarms, slowdowns found, pairs used.

    python -m benchmarks.verdict_worlds FILE.py --sessions=1 --suites=200 --slow=0,5%
        --tolerance=5% --json

It measures nothing. FILE.py has ``WORLDS``, a dict of functions by name. Each takes a
``numpy.random.Generator``, a number of cases and a number of stored sessions, and returns three
arrays of natural logs of rates of unchanged code: stored runs (cases, sessions, 5), runs of now
(cases, 20), and differences of pairs of runs, now less before, (cases, 20). Code that is slower
is made here: log(1 - slow) is added to the latter two. Each suite is judged as a session judges
it: stored sessions screen, and pairs decide what they leave open.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Run with -m, the folder of this file is not where Python looks for its neighbours.
sys.path.insert(0, str(Path(__file__).parent))

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import GOOD, Rule, Verdict
from verdict_rules import ours
from verdict_rules.simple import SIMPLE_RULES
from verdict_study.tally import interval

Logs: TypeAlias = NDArray[np.float64]
World: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Logs, Logs, Logs]]
#: Runs of a stored session; runs and pairs of now; runs of now that simple rules take.
_STORED, _NOW, _SIMPLE = 5, 20, 5
#: The rate of a log of 0.
_RATE: Final = 100.0
#: Logs beyond it are no rates: a factor of 5e21.
_LARGEST: Final = 50.0


@dataclass(kw_only=True, slots=True)
class SuitesTally:
    """What was said of the suites of one world, so many sessions and one slowdown."""

    suites: int = 0
    cases: int = 0
    #: Suites with at least one ``regressed``.
    alarmed: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    to_pairs: int = 0
    pairs: int = 0
    #: Suites with an alarm, and cases found, of each simple rule.
    simple_alarmed: Counter[str] = field(default_factory=Counter)
    simple_found: Counter[str] = field(default_factory=Counter)

    def add(self, decided: list[ours.Decided]) -> None:
        """Count one suite."""
        self.suites += 1
        self.cases += len(decided)
        self.alarmed += any(case.verdict is Verdict.REGRESSED for case in decided)
        self.verdicts.update(case.verdict for case in decided)
        self.to_pairs += sum(case.pairs > 0 for case in decided)
        self.pairs += sum(case.pairs for case in decided)

    def add_simple(self, stored: Logs, now: Logs) -> None:
        """Count what simple rules say of the rates of one suite."""
        for name, is_slower in SIMPLE_RULES.items():
            regressed = sum(map(is_slower, stored, now[:, :_SIMPLE]))
            self.simple_alarmed[name] += regressed > 0
            self.simple_found[name] += regressed

    @property
    def regressed(self) -> int:
        """Cases that regressed."""
        return self.verdicts[Verdict.REGRESSED]

    @property
    def passed(self) -> int:
        """Cases that passed, or improved."""
        return sum(self.verdicts[verdict] for verdict in GOOD)

    def shares(self) -> dict[str, float]:
        """Return the shares of suites and of cases, and the pairs of a case that needed some."""
        return {
            "suites_with_an_alarm": self.alarmed / self.suites,
            "found": self.regressed / self.cases,
            "passed": self.passed / self.cases,
            "open": 1 - (self.regressed + self.passed) / self.cases,
            "to_pairs": self.to_pairs / self.cases,
            "pairs_used": self.pairs / self.to_pairs if self.to_pairs else 0.0,
        }

    def simple_shares(self) -> dict[str, dict[str, float]]:
        """Return the shares of suites with an alarm, and of cases found, of each simple rule."""
        return {
            name: {
                "suites_with_an_alarm": self.simple_alarmed[name] / self.suites,
                "found": self.simple_found[name] / self.cases,
            }
            for name in SIMPLE_RULES
        }


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What suites are drawn, and how they are judged."""

    cases: int
    suites: int
    seed: int
    device: Any
    rule: Rule
    without_pairs: bool
    peers: bool


def suites_of(name: str, world: World, sessions: int, slow: float, asked: Asked) -> SuitesTally:
    """Return what is said of the suites of a world.

    Suites of one number have the same noise at each slowdown. Raises ``UsageError`` for a world
    that draws no such arrays.
    """
    tally = SuitesTally()
    for number in range(asked.suites):
        rng = np.random.default_rng([asked.seed, sessions, number])
        arrays = _called(name, world, rng, asked.cases, sessions)
        stored, now, pairs = drawn(name, arrays, asked.cases, sessions)
        stored = _RATE * np.exp(stored)
        now, pairs = (np.exp(logs + math.log1p(-slow)) for logs in (now, pairs))
        now *= _RATE
        tally.add([_decided(*case, asked) for case in zip(stored, now, pairs, strict=True)])
        if asked.peers:
            tally.add_simple(stored, now)
    return tally


def _called(
    name: str, world: World, rng: np.random.Generator, cases: int, sessions: int
) -> object:
    """Return what a world draws; what it prints goes to stderr. Raises ``UsageError``."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return world(rng, cases, sessions)
    except (Exception, SystemExit) as error:
        raise UsageError(f"world {name!r}: {type(error).__name__}: {error}") from error


def drawn(name: str, arrays: object, cases: int, sessions: int) -> tuple[Logs, Logs, Logs]:
    """Return the arrays that the world ``name`` drew; raise ``UsageError`` for wrong ones."""
    shapes = {
        "stored runs": (cases, sessions, _STORED),
        "runs of now": (cases, _NOW),
        "differences of pairs": (cases, _NOW),
    }
    if not isinstance(arrays, tuple | list) or len(arrays) != len(shapes):
        raise UsageError(
            f"world {name!r} returned {type(arrays).__name__}; return three arrays: "
            f"{', '.join(f'{what} {shape}' for what, shape in shapes.items())}"
        )
    checked = []
    for array, (what, shape) in zip(arrays, shapes.items(), strict=True):
        try:
            if np.iscomplexobj(array):
                raise TypeError("they are complex")
            logs = np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise UsageError(f"world {name!r}: {what} are not numbers: {error}") from None
        if logs.shape != shape:
            raise UsageError(f"world {name!r}: {what} have the shape {logs.shape}, not {shape}")
        if not np.abs(logs).max() < _LARGEST:
            raise UsageError(
                f"world {name!r}: {what} are to be natural logs of rates; a value is "
                f"{logs.flat[np.argmax(~(np.abs(logs) < _LARGEST))]}"
            )
        checked.append(logs)
    return checked[0], checked[1], checked[2]


def _decided(stored: Logs, now: Logs, pairs: Logs, asked: Asked) -> ours.Decided:
    """Return the verdict on one case: rates, and ratios of pairs."""
    history, runs = [_runs(session) for session in stored], _runs(now)
    if asked.without_pairs:
        alone = ours.stored(
            history, lambda count: [runs.pop(0) for _ in range(count)],
            rule=asked.rule, device=asked.device,
        )  # fmt: skip
        return ours.Decided(Verdict(alone[0]))
    before = ours.Run(by_time=_RATE, by_median=_RATE)
    paired = [(before, after) for after in _runs(_RATE * pairs)]
    return ours.two_stages(history, runs, paired, rule=asked.rule, device=asked.device)


def _runs(rates: Logs) -> list[ours.Run]:
    return [ours.Run(by_time=rate, by_median=rate) for rate in rates.tolist()]


def worlds_of(file: Path) -> dict[str, World]:
    """Return ``WORLDS`` of a Python file; raise ``UsageError`` where it has none."""
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file; name a Python file with WORLDS")
    spec = importlib.util.spec_from_file_location("worlds_of_file", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: name a Python file, *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file}: {type(error).__name__}: {error}") from error
    worlds = getattr(module, "WORLDS", None)
    if not isinstance(worlds, dict) or not worlds or not all(map(callable, worlds.values())):
        raise UsageError(
            f"{file}: WORLDS is to be a dict of functions by name, at least one; it is "
            f"{'not there' if worlds is None else repr(worlds)[:80]}"
        )
    return {str(name): world for name, world in worlds.items()}


def _whole(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number, 1 or more")
    return number


def _share(text: str) -> float:
    try:
        share = parse_share(text, what="a share")
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a share below 100 %, for instance 5%")
    return share


def _list(of: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        return [of(part) for part in text.split(",")]

    return parse


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdict_worlds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="a Python file with WORLDS")
    parser.add_argument(
        "--sessions", type=_list(_whole), default=[1], help="stored sessions: 1 or 1,3,10"
    )
    parser.add_argument("--suites", type=_whole, default=200)
    parser.add_argument(
        "--slow", type=_list(_share), default=[0.0, 0.05], help="slowdowns: 0,5%%; 0 is unchanged"
    )
    parser.add_argument("--tolerance", type=_share, help="as --dlperf-tolerance; default: none")
    parser.add_argument("--cases", type=_whole, default=10, help="cases of a suite")
    parser.add_argument("--family", type=_whole, help="cases of alpha; default: those of a suite")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--seed", type=_whole, default=1)
    parser.add_argument("--worlds", help="only those with this text in their name")
    parser.add_argument(
        "--without-pairs", action="store_true", help="as --dlperf-confirm=never: stored alone"
    )
    parser.add_argument("--peers", action="store_true", help="seven simple rules beside it")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


_COLUMNS: Final = ("suites_with_an_alarm", "found", "passed", "open", "to_pairs")


def _row(
    name: str, sessions: int, slow: float, tally: SuitesTally, *, peers: bool
) -> Iterator[str]:
    """Yield the lines of the table of one world and slowdown: percents, and simple rules."""
    shares = tally.shares()
    low, high = (100 * end for end in interval(tally.alarmed, tally.suites)[1:])
    figures = "".join(f"{100 * shares[column]:8.1f}" for column in _COLUMNS[1:])
    yield (
        f"{sessions:8d}{100 * slow:6.1f}{100 * shares['suites_with_an_alarm']:7.1f} "
        f"[{low:.0f}, {high:.0f}]".ljust(36)
        + f"{figures}{shares['pairs_used']:7.1f}  {name}"
    )
    if peers:
        for rule, simple in tally.simple_shares().items():
            alarm, cases = (100 * simple[key] for key in ("suites_with_an_alarm", "found"))
            yield f"{'':14s}{alarm:7.1f}".ljust(36) + f"{cases:8.1f}{'':33s}{rule}"


_HEAD: Final = (
    f"{'sessions':>8s}{'slow':>6s}  suites with an alarm".ljust(36)
    + "".join(f"{word:>8s}" for word in ("found", "passed", "open", "to pairs"))
    + "  pairs  world (all but sessions and pairs in %)"
)


def main(arguments: list[str] | None = None) -> int:
    """Print a table, or lines of JSON; a usage error exits 2."""
    parser = _options()
    given = parser.parse_args(arguments)
    asked = Asked(
        cases=given.cases,
        suites=given.suites,
        seed=given.seed,
        device=given.device,
        rule=Rule(
            tolerance=given.tolerance,
            family=given.family or given.cases,
            without_pairs=given.without_pairs,
        ),
        without_pairs=given.without_pairs,
        peers=given.peers,
    )
    try:
        _print(worlds_of(given.file), given, asked)
    except UsageError as error:
        parser.error(str(error))
    return 0


def _print(worlds: Mapping[str, World], given: argparse.Namespace, asked: Asked) -> None:
    wanted = {name: worlds[name] for name in worlds if not given.worlds or given.worlds in name}
    if not wanted:
        raise UsageError(f"--worlds={given.worlds}: none of {', '.join(worlds)}")
    if not given.json:
        print(_HEAD)
    for sessions in given.sessions:
        for name, world in wanted.items():
            for slow in given.slow:
                tally = suites_of(name, world, sessions, slow, asked)
                if given.json:
                    about = {"world": name, "sessions": sessions, "slow": slow} | tally.shares()
                    print(json.dumps(about | _peers(tally, asked)), flush=True)
                else:
                    print(
                        *_row(name, sessions, slow, tally, peers=asked.peers), sep="\n", flush=True
                    )


def _peers(tally: SuitesTally, asked: Asked) -> dict[str, Any]:
    return {"simple_rules": tally.simple_shares()} if asked.peers else {}


if __name__ == "__main__":
    sys.exit(main())
