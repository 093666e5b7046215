"""Repeated runs of published reports, with slowdowns applied to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from verdict_study.data import CASES, MOST_RUNS, STORED_RUNS, CaseData, slowed

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.core.layout import DeviceKind
    from verdict_rules.peer import Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Configurations of V100 clusters, one rate a run, all runs of a configuration in a row.

    A run is drawn from what was published of its configuration, widened by what the variance of
    so few runs is short of. There is one stored session: how much sessions differ was not
    published, so that more of them would be made up.
    """

    truths: tuple[float, ...]
    #: Seconds of an iteration, up to a factor, of the runs of each configuration.
    configurations: tuple[Seconds, ...]
    name: str = "published"
    title: str = "repeated runs of published reports, 24 of 64 configurations, one stored session"
    has_iterations: bool = False
    device: DeviceKind = "gpu"

    def suite(self, rng: np.random.Generator) -> tuple[CaseData, ...]:
        """Return 24 configurations, with runs drawn again."""
        picks = rng.choice(len(self.configurations), CASES, replace=False)
        return tuple(self._case(rng, self.configurations[pick]) for pick in picks)

    def _case(self, rng: np.random.Generator, runs: Seconds) -> CaseData:
        logs = np.log(runs)
        wider = (len(runs) / (len(runs) - 1)) ** 0.5
        logs = logs.mean() + wider * (logs - logs.mean())

        def drawn(count: int) -> Seconds:
            seconds: Seconds = np.exp(rng.choice(logs, (count, 1)))
            return seconds

        stored, now, before, after = map(drawn, (STORED_RUNS, *3 * (MOST_RUNS,)))
        return CaseData(
            history=(stored,),
            now={truth: slowed(now, truth) for truth in self.truths},
            before=dict.fromkeys(self.truths, before),
            after={truth: slowed(after, truth) for truth in self.truths},
        )


def published(noise: Path, truths: tuple[float, ...]) -> Published:
    """Return the configurations of a folder of recorded noise."""
    text = (noise / "repeated_runs.json").read_text(encoding="utf-8")
    configurations = tuple(1 / np.array(one["runs"]) for one in json.loads(text))
    return Published(truths=truths, configurations=configurations)
