"""Gathers inputs of the judge: from its tests, from live sessions, and from seeded worlds."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pytest_dlperf.core.codec import DecodeError
from tests.golden.golden_file import as_written
from tests.golden.roads import ENTRIES, Input

ROOT: Final = Path(__file__).parents[2]
_TESTS: Final = (
    "tests/unit/judge",
    "tests/unit/flow",
    "tests/unit/cli/test_cli_judge.py",
    "tests/unit/cli/test_cli_judge_sides.py",
)
_NOT: Final = "tests/unit/judge/test_golden.py"
#: Inputs of one source at most: tests of error rates have thousands that are alike.
_MOST: Final = 400
#: Judgements of one case in a row of live sessions.
_REPLAYED: Final = 24
_SUITES: Final = 2
_CASES: Final = 3


class Harvest:
    """Keeps what the judge is given, with its source."""

    def __init__(self) -> None:
        self.inputs: list[tuple[str, Input]] = []
        self.source = ""
        self._count: Counter[str] = Counter()

    def add(self, given: Input | None) -> None:
        """Keep an input; not one that no file can have, as with a rate that is not finite."""
        if given is None or self._count[self.source] >= _MOST:
            return
        self._count[self.source] += 1
        try:
            self.inputs.append((self.source, as_written(given)))
        except DecodeError as error:
            if "finite" not in str(error):
                raise

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keep what is given to the judge, as it is imported anywhere."""
        for (module, name), given_by in ENTRIES.items():
            judge = getattr(importlib.import_module(module), name)
            _replace(judge, self._kept(judge, given_by))
        try:
            yield
        finally:
            for module, name in ENTRIES:
                kept = getattr(importlib.import_module(module), name)
                _replace(kept, kept.__wrapped__)

    def _kept(
        self, judge: Callable[..., Any], given_by: Callable[..., Input | None]
    ) -> Callable[..., Any]:
        @functools.wraps(judge)
        def kept(*args: Any, **kwargs: Any) -> Any:
            self.add(given_by(*args, **kwargs))
            return judge(*args, **kwargs)

        return kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Name the test as the source of what it gives to the judge."""
        self.source = item.nodeid.partition("[")[0].rpartition("/")[2]


def _replace(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                setattr(module, name, new)


def harvested() -> list[tuple[str, Input]]:
    """Return inputs with their sources. Takes minutes."""
    harvest = Harvest()
    with harvest.listening():
        for source, gather in _GATHERED.items():
            harvest.source = source
            gather()
        tests = [str(ROOT / test) for test in _TESTS]
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
        options += ["--rootdir", str(ROOT), f"--ignore={ROOT / _NOT}"]
        if code := pytest.main([*options, *tests], plugins=[harvest]):
            raise SystemExit(f"tests that give inputs fail, exit code {int(code)}")
    return harvest.inputs


def _from_live_sessions() -> None:
    import live_replay
    from pytest_dlperf.core.verdict import Rule

    for path in sorted((ROOT / "benchmarks" / "live").glob("*/outcomes.jsonl")):
        for case, block in live_replay.sessions_in_a_row(path).items():
            for stored in (1, 5):
                rule = Rule(family=2, tolerance=0.05)
                replayed = live_replay.replay(case, block, stored, [0.0, 0.05, 0.2], rule)
                deque(itertools.islice(replayed, _REPLAYED), maxlen=0)


def _from_worlds() -> None:
    import verdict_worlds
    import worlds
    from pytest_dlperf.core.verdict import Rule

    for without_pairs in (False, True):
        for sessions in (1, 3, 10):
            for name, world in worlds.WORLDS.items():
                asked = verdict_worlds.Asked(
                    cases=_CASES, suites=_SUITES, seed=43, device="gpu",
                    rule=Rule(family=_CASES, without_pairs=without_pairs),
                    without_pairs=without_pairs, peers=False,
                )  # fmt: skip
                for slow in (0.0, 0.05):
                    verdict_worlds.suites_of(name, world, sessions, slow, asked)


def _from_nights() -> None:
    import nights

    for seed, world in enumerate(nights.worlds()):
        one = nights.Nights(world, np.random.default_rng(seed))
        for night in range(12):
            one.night(-0.004 * night)


_GATHERED: Final[Mapping[str, Callable[[], None]]] = {
    "live sessions": _from_live_sessions,
    "worlds": _from_worlds,
    "nights": _from_nights,
}
