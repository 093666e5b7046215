"""Simulated suites: log-normal at three levels, iterations that remember, and spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.signal import lfilter

from verdict_study.data import CASES, MOST_RUNS, STORED_RUNS, CaseData, slowed

if TYPE_CHECKING:
    from pytest_dlperf.core.layout import DeviceKind
    from verdict_rules.peer import Seconds

#: Seconds of an iteration of an undisturbed run.
_STEP_SECONDS: Final = 0.1
#: What a spike adds, in iterations, on average (exponential).
_SPIKE_ADDS: Final = 0.8
_STORED_SESSIONS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Standard deviations of log seconds at each level, and how iterations hang together."""

    session_sd: float
    run_sd: float
    iteration_sd: float
    #: Correlation of an iteration with the next one.
    autocorrelation: float
    #: Share of iterations that are hit by something.
    spikes: float


NOISE: Final = {
    "quiet": Noise(
        session_sd=0.002, run_sd=0.004, iteration_sd=0.015, autocorrelation=0.5, spikes=0.005
    ),
    "typical": Noise(
        session_sd=0.006, run_sd=0.008, iteration_sd=0.03, autocorrelation=0.6, spikes=0.01
    ),
    "noisy": Noise(
        session_sd=0.015, run_sd=0.015, iteration_sd=0.06, autocorrelation=0.7, spikes=0.03
    ),
}


def seconds(
    noise: Noise, rng: np.random.Generator, shape: tuple[int, ...], iterations: int = 100
) -> Seconds:
    """Return seconds of the iterations of runs: ``shape`` is sessions by runs, any axes before.

    Runs of one session share its level, and nothing else is shared.
    """
    innovations = rng.standard_normal((*shape, iterations))
    rest = (1 - noise.autocorrelation**2) ** 0.5
    innovations[..., 0] /= rest  # the first iteration spreads as all do
    steps = lfilter([rest], [1, -noise.autocorrelation], innovations)
    logs = noise.iteration_sd * steps
    logs += noise.run_sd * rng.standard_normal((*shape, 1))
    logs += noise.session_sd * rng.standard_normal((*shape[:-1], 1, 1))
    hit = rng.random(logs.shape) < noise.spikes
    spikes = 1 + np.where(hit, rng.exponential(_SPIKE_ADDS, logs.shape), 0.0)
    step_seconds: Seconds = _STEP_SECONDS * np.exp(logs) * spikes
    return step_seconds


#: Not every case of a suite is as noisy as the others.
MIXED: Final = ("quiet", "typical", "noisy")


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    """Suites at one level of noise, or ``mixed``: a third of the cases at each."""

    level: str
    truths: tuple[float, ...]
    has_iterations: bool = True
    device: DeviceKind = "gpu"

    @property
    def name(self) -> str:
        """The level of noise."""
        return self.level

    @property
    def title(self) -> str:
        """What is simulated."""
        if self.level == "mixed":
            return f"simulated, a third of the cases each: {', '.join(MIXED)}"
        noise = NOISE[self.level]
        return (
            f"simulated, {self.level}: sessions {noise.session_sd:.1%}, runs {noise.run_sd:.1%}, "
            f"iterations {noise.iteration_sd:.1%} (lag 1: {noise.autocorrelation}), spikes "
            f"{noise.spikes:.1%}"
        )

    def suite(self, rng: np.random.Generator) -> tuple[CaseData, ...]:
        """Return 24 cases; the truths of a case share their random numbers."""
        levels = MIXED if self.level == "mixed" else (self.level,)
        return tuple(
            case
            for level in levels
            for case in self._cases(rng, NOISE[level], CASES // len(levels))
        )

    def _cases(self, rng: np.random.Generator, noise: Noise, count: int) -> tuple[CaseData, ...]:
        history = seconds(noise, rng, (count, _STORED_SESSIONS, STORED_RUNS))
        now = seconds(noise, rng, (count, MOST_RUNS))
        pairs = seconds(noise, rng, (count, 2 * MOST_RUNS))
        return tuple(
            CaseData(
                history=tuple(history[case]),
                now={truth: slowed(now[case], truth) for truth in self.truths},
                before=dict.fromkeys(self.truths, pairs[case, ::2]),
                after={truth: slowed(pairs[case, 1::2], truth) for truth in self.truths},
            )
            for case in range(count)
        )
