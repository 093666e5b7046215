"""Variance components of simulated step times, whose truth is known; and the table of them."""

from __future__ import annotations

import gzip
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import where_noise_sits
from noise_levels import rebuilt
from noise_levels.components import Component, analysis, components

pytestmark = pytest.mark.once

#: Standard deviations: session, launch, build, block, iteration.
TRUE = (0.03, 0.05, 0.02, 0.04, 0.10)


def simulated(
    seed: int, sds: tuple[float, ...], counts: tuple[int, ...], *, keep: float = 1.0
) -> tuple[list[float], list[list[int]]]:
    """Return logs and the groups of each, of a nested design; of it a share is kept."""
    rng = np.random.default_rng(seed)
    shape = counts
    values = np.full(shape, -4.0)
    for depth, sd in enumerate(sds, start=1):
        of_level = rng.normal(0, sd, shape[:depth])
        values = values + of_level.reshape(of_level.shape + (1,) * (len(shape) - depth))
    groups = np.indices(shape)[:-1].reshape(len(shape) - 1, -1)
    kept = rng.random(values.size) < keep
    return values.reshape(-1)[kept].tolist(), groups[:, kept].tolist()


def found(seed: int, **design: Any) -> dict[str, Component]:
    values, groups = simulated(seed, **design)
    nested = analysis(values, groups, where_noise_sits.LEVELS)
    return {one.name: one for one in components(nested)}


@pytest.mark.parametrize("keep", [1.0, 0.4], ids=["balanced", "unbalanced"])
def test_components_are_found_and_intervals_hold_them(keep: float) -> None:
    tries = [found(seed, sds=TRUE, counts=(10, 3, 3, 4, 8), keep=keep) for seed in range(60)]
    whole = sum(sd**2 for sd in TRUE)
    for name, sd in zip(where_noise_sits.LEVELS, TRUE, strict=True):
        mine = [one[name] for one in tries]
        # Of variances, which are unbiased but for those below 0
        mean = statistics.fmean(one.sd.value**2 for one in mine)
        assert mean == pytest.approx(sd**2, rel=0.25)
        held = sum(one.sd.low <= sd <= one.sd.high for one in mine)
        shared = sum(one.share.low <= sd**2 / whole <= one.share.high for one in mine)
        # Of 60 intervals of 90 %, fewer than 47 hold the truth once in 1000 such tests
        assert min(held, shared) >= 47
        assert all(one.sd.low <= one.sd.high for one in mine)


def test_a_level_without_variance_has_a_small_share() -> None:
    tries = [found(s, sds=(0.0, 0.05, 0.0, 0.0, 0.1), counts=(8, 3, 3, 4, 8)) for s in range(20)]
    assert statistics.median(one["build"].share.value for one in tries) < 0.02
    assert all(one["launch"].share.value > one["build"].share.value for one in tries)


def test_balanced_components_are_those_of_the_textbook() -> None:
    values, groups = simulated(5, (0.1, 0.2), (6, 4))
    nested = analysis(values, groups, ("launch", "iteration"))
    rows = np.array(values).reshape(6, 4)
    between, within = 4 * rows.mean(axis=1).var(ddof=1), rows.var(axis=1, ddof=1).mean()
    assert nested.squares / nested.df == pytest.approx([between, within])
    launch, iteration = components(nested)
    assert iteration.sd.value == pytest.approx(math.sqrt(within))
    assert launch.sd.value == pytest.approx(math.sqrt(max(0.0, (between - within) / 4)))


def test_a_level_that_is_not_repeated_is_not_named() -> None:
    values, groups = simulated(1, (0.1, 0.1, 0.1, 0.1, 0.1), (1, 5, 1, 3, 4))
    assert analysis(values, groups, where_noise_sits.LEVELS).levels == (
        "launch",
        "block",
        "iteration",
    )


def line(session: int, arm: str = "plain", scale: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(session + 100 * len(arm))
    steps = (20_000 * scale * np.exp(rng.normal(0, 0.05, (2, 3, 4)))).round().astype(int)
    return {
        "case": "toy",
        "arm": arm,
        "session": session // 2,
        "iterations": 4,
        "steps_us": steps.tolist(),
        "cpu_us": steps.sum(axis=2).tolist(),
    }


def test_the_table_has_a_row_for_each_arm_and_what_it_changes() -> None:
    lines = [line(i) for i in range(6)] + [line(i, "pinned", 1.1) for i in range(6)]
    text = where_noise_sits.table(lines)
    steps, cpu = text.split("log CPU time")
    for part, cells in ((steps, 10), (cpu, 9)):
        pinned, plain = [row for row in part.splitlines() if row.startswith("| toy")]
        assert pinned.count("|") == plain.count("|") == cells + 1
        assert "| toy | plain | 3, 6 |" in plain
        assert "| +0.0 % |" in plain
        change = float(pinned.split("|")[5].strip(" %"))
        assert change == pytest.approx(10, abs=3)


def test_a_file_that_was_cut_short_keeps_its_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    whole = "".join(json.dumps(line(number)) + "\n" for number in range(4))
    file.write_text(whole[:-20])
    sessions = [one["session"] for one in where_noise_sits.read(file)]
    where_noise_sits.drop_cut_line(file)
    with file.open("a") as lines:
        lines.write(json.dumps(line(9)) + "\n")
    assert sessions == [0, 0, 1]
    compressed = tmp_path / "lines.jsonl.gz"
    compressed.write_bytes(gzip.compress(file.read_bytes()))
    for path in (file, compressed):
        assert [one["session"] for one in where_noise_sits.read(path)] == [0, 0, 1, 4]


def test_a_launch_builds_again_at_the_borders_of_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def build(job: object) -> Any:
        number = len(made)
        made.append(job)
        return lambda: number

    monkeypatch.setattr(where_noise_sits, "build", build, raising=False)
    sizes = where_noise_sits.Sizes(builds=3, blocks=2, each=4)
    for name, value in (
        (rebuilt.WORKLOAD, "where_noise_sits:build"),
        (rebuilt.WARM_UP, "20"),
        (rebuilt.EACH, str(sizes.build_iterations)),
    ):
        monkeypatch.setenv(name, value)
    step = rebuilt.build(object())  # type: ignore[arg-type]
    by_iteration = [step() for _ in range(20 + 3 * sizes.build_iterations)]
    build_iterations = sizes.build_iterations
    assert (
        by_iteration
        == [0] * (20 + build_iterations) + [1] * build_iterations + [2] * build_iterations
    )
