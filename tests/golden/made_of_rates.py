"""Makes sides of logs, and of plain numbers, by a seed."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, Final

from pytest_dlperf.core.run import Problem
from tests.golden import drawn
from tests.golden.drawn import maybe
from tests.golden.roads import (
    LOGS,
    LOGS_AND_STORED,
    LogRun,
    Logs,
    LogSide,
    Numbers,
    PlainNumbers,
)

_CODES: Final = (
    "world-size-mismatch", "batch-size-mismatch", "precision-unchecked", "disturbed",
    "loss-not-finite", "not-trained", "drift", "clocks-disagree",
)  # fmt: skip
_CHANGES: Final = (0.0, 0.0, 0.01, -0.02, -0.05, -0.08, -0.3, 0.06, 0.2)


def _rates(rng: random.Random, shift: float, sd: float, count: int) -> tuple[float, ...]:
    return tuple(100.0 * math.exp(shift + rng.gauss(0.0, sd)) for _ in range(count))


def logs(rng: random.Random) -> Logs:
    """Draw the logs of two trainings."""
    sd = rng.choice((0.001, 0.005, 0.02))
    change = math.log1p(rng.choice(_CHANGES))
    waits = rng.choice((None, (0.1, 0.1), (0.05, 0.3), (0.05, 0.1)))
    off = rng.choice((0.0, 0.0, 0.0, 0.1, -0.1, 0.3))
    before = _side(rng, "the baseline", 0.0, sd, 0.0, waits and waits[0])
    now = _side(rng, "toy", change, sd, off, waits and waits[1])
    if maybe(rng, 0.15):
        now = replace(now, problems=_problems(rng))
    if maybe(rng, 0.08):
        before = replace(before, problems=_problems(rng))
    if maybe(rng, 0.15):
        now = replace(now, **_other_training(rng))
    if maybe(rng, 0.3):  # of a baseline, whose runs no log reports
        count = rng.choice((1, 3, 6))
        sessions = tuple(_rates(rng, 0.0, sd, 5) for _ in range(count))
        before = replace(before, sessions=sessions, runs=())
    if maybe(rng, 0.06):
        before, now = replace(before, has_loss=True), replace(now, has_loss=False)
    if maybe(rng, 0.01):
        now = replace(now, sessions=((0.0,),))
    files = rng.choice((((), ()), (("a",), ("b",)), (("a",), ("a",)), (("a", "b"), ("b", "c"))))
    if maybe(rng, 0.1):
        files = ("a", "b"), rng.choice((("a", "b"), ("a", "b", "c")))
    return Logs(
        before=before, now=now, rule=drawn.rule(rng), prior=rng.choice((LOGS, LOGS_AND_STORED)),
        files_before=files[0], files_now=files[1],
    )  # fmt: skip


def _problems(rng: random.Random) -> tuple[Problem, ...]:
    return tuple(
        Problem(code=code, message=f"a.log: it shows {code}") for code in rng.sample(_CODES, 2)
    )


def _other_training(rng: random.Random) -> dict[str, Any]:
    return rng.choice((
        {"unit": "tokens"}, {"world_size": 8}, {"batch_size_per_device": 16},
        {"precision": "bf16"}, {"world_size": None}, {"precision": None, "world_size": None},
        {"precision": "FP32"},
    ))  # fmt: skip


def _side(
    rng: random.Random, name: str, shift: float, sd: float, off: float, wait: float | None
) -> LogSide:
    """Draw a side; ``off`` is how much the mean of rates differs from the other estimators."""
    rates = _rates(rng, shift, sd, rng.choice((1, 1, 3, 5)))
    stall = "a.log: iteration 20 ran at 3 images/s" if off and maybe(rng, 0.6) else ""
    runs = tuple(
        LogRun(
            throughput=rate,
            estimates={
                "mean_of_rates": rate * math.exp(off),
                "median_of_rates": rate * math.exp(off / 2),
                "time_weighted": rate,
            },
            data_wait_share=wait,
            stall=stall,
        )
        for rate in rates
    )
    return LogSide(
        name=name, unit="images", sessions=(rates,), world_size=rng.choice((2, 2, 2, None)),
        batch_size_per_device=rng.choice((4, 4, 4, None)), precision=rng.choice(("fp32", None)),
        runs=runs, log_format=rng.choice((None, "paddleseg")), has_loss=rng.choice((None, True)),
    )  # fmt: skip


def numbers(rng: random.Random) -> PlainNumbers:
    """Draw sessions of runs, or pairs of runs."""
    sd = rng.choice((0.0005, 0.003, 0.01, 0.03))
    change = math.log1p(rng.choice(_CHANGES))
    paired = maybe(rng, 0.4)
    count = rng.choice((1, 3, 5, 10))
    sessions = [1, 1] if paired else [rng.choice((1, 1, 2, 5)), rng.choice((1, 1, 2, 4))]
    sides = []
    for name, shift, number in zip(("before", "now"), (0.0, change), sessions, strict=True):
        several = tuple(_rates(rng, shift, sd, count) for _ in range(number))
        unit = rng.choice(("images/s", "images/s", "images/s", ""))
        sides.append(Numbers(name=name, unit=unit, sessions=several))
    before, now = sides
    odd = rng.random()
    if odd < 0.02:
        now = replace(now, sessions=((),))
    elif odd < 0.04:
        now = replace(now, sessions=((-1.0,) * count,))
    elif odd < 0.07:
        now = replace(now, unit="tokens/s")
    elif odd < 0.09:
        now = replace(now, sessions=(*now.sessions, (100.0,)))
    return PlainNumbers(before=before, now=now, rule=drawn.rule(rng), paired=paired)
