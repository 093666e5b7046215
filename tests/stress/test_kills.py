"""pytest is killed at random moments: nothing lives on, no file is broken, the next one runs."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history import notes
from tests.helpers.stage import CASES, SLOW_DISK, Stage, wait_until

# Minutes of sessions that are killed; tests/faults kills one, and benchmarks/faults.md has 50.
pytestmark = pytest.mark.nightly

RUN_S = 0.3
#: However busy the machine is, this is promised.
NO_ORPHAN_AFTER_S = 15.0
TEMPORARIES = ("baselines/**/.*.tmp", ".dlperf/.*.tmp", ".*.tmp")
PHASES = ("collection", "launch", "measuring", "judging", "writing")


def trigger(stage: Stage, phase: str, number: int) -> tuple[Callable[[], object], float]:
    """Return what begins a phase of the session, and how long about it lasts, in seconds."""
    runs = {path for path in stage.path.glob(".dlperf/*/*/run?") if path.is_dir()}
    told = {what: len(stage.told(what)) for what in ("begin", "end")}

    def launched() -> bool:
        return len(set(stage.path.glob(".dlperf/*/*/run?")) - runs) >= number

    def temporary() -> list[Path]:
        return [path for where in TEMPORARIES for path in stage.path.glob(where)]

    return {
        "collection": (lambda: True, 1.5),
        "launch": (launched, 0.1),
        "measuring": (lambda: len(stage.told("begin")) >= told["begin"] + number, RUN_S),
        "judging": (lambda: len(stage.told("end")) >= told["end"] + number, 0.3),
        "writing": (lambda: len(stage.told("end")) >= told["end"] + number and temporary(), 0.08),
    }[phase]


def test_killed_at_random_moments(
    stage: Stage, kills: int, seed: int, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(stage.runtime))
    (stage.path / "conftest.py").write_text(SLOW_DISK)
    with capsys.disabled():
        sys.stdout.write(f"\n{kills} kills, --seed={seed}\n")
    chance = random.Random(seed)
    hit: Counter[str] = Counter()
    orphans_s: list[float] = []
    for i in range(kills):
        # In turn, and in another order of workers every time.
        phase, workers = PHASES[i % len(PHASES)], ("-n2",) if i % 3 == 2 else ()
        begins, lasts_s = trigger(stage, phase, chance.randint(1, 2 * CASES - 1))
        session = stage.start(f"killed{i}", *workers, run_s=RUN_S, results="r")
        came = wait_until(begins, [session], at_most_s=120)
        time.sleep(chance.uniform(0, lasts_s))
        session.send_signal(signal.SIGKILL)
        hit[phase if session.wait() == -signal.SIGKILL and came else "too late"] += 1
        orphans_s.append(seconds_until_gone(stage))
        check_files(stage)
        if i % 10 == 9 or i == kills - 1:
            check_next_session(stage, f"after{i}")
    with capsys.disabled():
        sys.stdout.write(f"{dict(hit)}; nothing lived on longer than {max(orphans_s):.1f} s\n")
    # Sessions of which all cases are done before the moment comes are few.
    assert hit["too late"] <= max(1, kills // 5), hit


def seconds_until_gone(stage: Stage) -> float:
    """Return how long processes of a killed session lived on, and its lease was held."""
    begin_s = time.monotonic()
    # A process that is ending has no environment any more, and its files still.
    while (living := stage.living()) or (holder := lease_holder()) is not None:
        assert time.monotonic() - begin_s < NO_ORPHAN_AFTER_S, living or holder
        time.sleep(0.02)
    return time.monotonic() - begin_s


def check_files(stage: Stage) -> None:
    """Fail for a file that cannot be read any more."""
    store = BaselineStore(stage.path / "baselines")
    found, broken = store.readable()
    assert broken == []
    assert all(stored.baseline.sessions for stored in found)
    work = stage.path / ".dlperf"
    if (work / "certificates.json").exists():
        assert json.loads((work / "certificates.json").read_text(encoding="utf-8"))
        assert notes.read_certificates(work)
    for path in [*work.glob("*/*/run*/supervisor.json"), *stage.path.glob("*.json")]:
        json.loads(path.read_text(encoding="utf-8"))
    assert stage.told("overlap") == []


def check_next_session(stage: Stage, name: str) -> None:
    """Fail unless a whole session runs, and cleans up what those before it have left."""
    session = stage.start(name, run_s=0.0, results="r")
    assert session.wait(timeout=300) == 0, stage.log(name)
    outcomes = stage.outcomes("r")
    assert len(outcomes) == CASES
    assert {o["judgement"]["verdict"] for o in outcomes.values()} <= {"passed", "inconclusive"}
    assert all(o["update"] for o in outcomes.values())
    check_files(stage)
    assert [path for where in TEMPORARIES for path in stage.path.glob(where)] == []
    assert len(list(stage.path.glob(".dlperf/*/.dlperf-session"))) <= 10
    assert list(stage.temporary.glob("dlperf*")) == []
    assert stage.living() == []
