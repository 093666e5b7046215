"""Every suite's tiny training on two ranks: the loss falls, and each planted fault is found.

The ranks are the worker's own, and what judges them is what judges a session's runs; sessions and
launchers are in test_planted_faults.py. That a fault is found says little where a right training
is refused as well, so each suite trains rightly first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_dlperf import expand
from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import LaunchPlan, Run, RunSummary
from pytest_dlperf.core.wire import RankArguments
from pytest_dlperf.judge.convergence import Band, band
from pytest_dlperf.measure.summary import summarise
from tests.torch.test_planted_faults import MARKERS

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
ITERATIONS, WARMUP = 40, 10
WRONG_FALL = "fast but wrong"
#: What says that a run with a fault is wrong, one of them. At rate 0, a loss with dropout is noise
#: that may fall by a little, and then it falls too little.
FOUND = {
    "learning-rate-0": ("the loss did not fall", WRONG_FALL),
    "not-averaged": ("gradients are not averaged",),
    "wrong-dtype": ("the case names fp32",),
    "shuffled-labels": (WRONG_FALL, "the loss did not fall"),
}


#: These show in any few iterations, in which the loss need not fall yet.
SHORT = ("not-averaged", "wrong-dtype")


def case_of(suite: str, fault: str) -> Case:
    keys = {"iterations": ITERATIONS, "warmup": WARMUP, **MARKERS[suite]}
    if fault in SHORT:
        keys |= {"iterations": 8, "warmup": 4, "loss": "finite"}
    [case] = expand(
        workload=f"planted:{suite}", suite=suite, framework="torch", size="tiny", layout="1n2c",
        speedup=None, **keys,
    )  # fmt: skip
    return case


def words_of(case: Case, folder: Path) -> list[str]:
    """Return the command line of a rank, as the launcher writes it."""
    return [
        *RankArguments(
            framework="torch",
            workload=case.workload,
            precision=case.precision,
            device="cpu",
            size="tiny",
            loss=case.loss,
            batch_size_per_device=case.batch_size_per_device,
            world_size=case.world_size,
            iterations=case.protocol.iterations,
            warmup=case.protocol.warmup,
            threads_per_rank=1,
            collective_timeout_s=120.0,
            seed=1,
            records=str(folder),
            place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            work=case.replica_work,
            parallel=case.parallel,
            uncounted_unit=case.unit if case.replica_work is None else "",
            options=dict(case.options),
        ).flags()
    ]


@dataclass(frozen=True)
class Trained:
    """All trainings, each in a folder of its own."""

    folder: Path

    def summary(self, suite: str, fault: str = "") -> RunSummary:
        """Return what the run measured; raises ``CaseError`` where it is refused."""
        folder = self.folder / f"{suite}-{fault}"
        log = "".join(path.read_text() for path in sorted(folder.glob("output*.log")))
        (folder / "output.log").write_text(log, encoding="utf-8")
        case = case_of(suite, fault)
        plan = LaunchPlan(case_id=case.id, argv=(), env={}, workdir=str(folder), timeout_s=600.0)
        run = Run(
            plan=plan, exit_code=0, elapsed_s=1.0, started_at_s=0.0, log=str(folder / "output.log")
        )
        return summarise(case, run)[0]


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Train the suites that are asked for: all, or those of ``-k``."""
    folder = tmp_path_factory.mktemp("planted")
    runs = []
    items = [item for item in request.session.items if item.module is request.module]
    for suite in [item.callspec.params["suite"] for item in items]:
        for fault in ("", *FOUND):
            of_run = folder / f"{suite}-{fault}"
            runs.append((str(of_run), fault, words_of(case_of(suite, fault), of_run)))
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    subprocess.run(
        [sys.executable, str(Path(__file__).with_name("planted_ranks.py")), folder / "runs.json"],
        env={
            "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}", "OMP_NUM_THREADS": "1",
            "HOME": str(folder), "PATH": os.environ["PATH"],
        },
        check=True,
        timeout=1800,
    )  # fmt: skip
    return Trained(folder)


@pytest.mark.parametrize("suite", MARKERS)
def test_a_suite_trains_and_its_faults_are_found(trained: Trained, suite: str):
    right = trained.summary(suite)
    assert len(right.ranks) == 2
    assert right.loss_fall is not None
    assert right.loss_fall > 0
    allowed = band("fp32", [Session(time="", runs=(right.throughput,), loss_fall=right.loss_fall)])
    assert allowed is not None
    for fault, sentences in FOUND.items():
        said = refusal(trained, suite, fault, allowed)
        assert any(sentence in said for sentence in sentences), (fault, said)


def refusal(trained: Trained, suite: str, fault: str, allowed: Band) -> str:
    """Return why a run is wrong, in words of the product; empty where nothing says so."""
    try:
        fall = trained.summary(suite, fault).loss_fall
    except CaseError as error:
        return str(error)
    assert fall is not None
    return "" if allowed.low <= fall <= allowed.high else WRONG_FALL
