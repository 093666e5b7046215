"""Ctrl-C while launches explain what ``dlperf compare`` has found: the verdict is printed."""

from __future__ import annotations

from pathlib import Path

from pytest_dlperf.cli.compare import bench_of
from pytest_dlperf.core.arm import HereArm, parse_arm
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.flow.bench import Policy
from pytest_dlperf.launch.arms.git import Preparation


def test_the_verdict_is_not_lost(tmp_path: Path):
    before = parse_arm("A=1", what="--a")
    bench = bench_of(
        before, HereArm(), policy=Policy(rule=Rule()), here=tmp_path, workdir=tmp_path / "work",
        preparation=Preparation(),
    )  # fmt: skip
    bench.interrupted(KeyboardInterrupt())
