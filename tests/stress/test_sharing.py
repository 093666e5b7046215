"""Sessions side by side on one host: one case is measured at a time, and nothing is lost."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.stage import CASES, Stage

TORCH_TESTS = """
import pytest

@pytest.mark.dlperf("workloads:build", layout="1n1c", launcher="torchrun", precision="fp32",
                    batch_size_per_device=[4, 8], iterations=30, warmup=10, runs=1, max_runs=1,
                    timeout_s=300)
def test_net(dlperf):
    dlperf.run()
"""
SESSIONS = 4
RECORDS = ".dlperf/*/*/run*/rank00000.jsonl"


@pytest.mark.nightly  # the gate has two sessions at once in tests/plugin
def test_four_sessions_of_two_workers_each(stage: Stage):
    sessions = [stage.start(f"s{i}", "-n2") for i in range(SESSIONS)]
    ended = [session.wait(timeout=500) for session in sessions]
    logs = "\n".join(stage.log(f"s{i}") for i in range(SESSIONS))
    assert ended == [0] * SESSIONS, logs
    # Every case of every session was measured and stored, each run by itself.
    begins, ends = stage.told("begin"), stage.told("end")
    assert len(begins) == len(ends) == SESSIONS * CASES * 2
    assert stage.told("overlap") == []
    assert all(end <= begin for end, begin in zip(sorted(ends), sorted(begins)[1:], strict=False))
    for i in range(SESSIONS):
        outcomes = stage.outcomes(f"s{i}")
        assert len(outcomes) == CASES
        assert {o["update"] for o in outcomes.values()} <= {"created", "appended"}
    files = list(stage.path.glob("baselines/*/*/*.json"))
    assert len(files) == CASES
    for path in files:
        assert len(json.loads(path.read_text(encoding="utf-8"))["sessions"]) == SESSIONS
    assert list(stage.path.glob("baselines/**/*.tmp")) == []
    assert stage.living() == []
    assert "waiting for this host, held by pid" in logs


# The same lease as above, whatever program runs under it.
@pytest.mark.nightly
@pytest.mark.torch
def test_real_training_side_by_side(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "torch"), prepend=":")
    (stage.path / "test_net.py").write_text(TORCH_TESTS)
    sessions = [stage.start(f"s{i}", "-n2") for i in range(2)]
    ended = [session.wait(timeout=500) for session in sessions]
    assert ended == [0, 0], stage.log("s0") + stage.log("s1")
    spans = sorted(map(span_of, stage.path.glob(RECORDS)))
    # Two cases of two sessions; a run that others disturbed is repeated.
    assert len({path.parents[1] for path in stage.path.glob(RECORDS)}) == 4
    assert all(one[1] <= other[0] for one, other in pairwise(spans)), spans


def span_of(path: Path) -> tuple[float, float]:
    """Return when a rank was started, and when it had ended."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    times = {record["record"]: record["time"] for record in records if "time" in record}
    return times["start"], times["end"]
