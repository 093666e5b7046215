"""Every suite's tiny training on two devices, rightly and with faults, in one process.

The ranks are the worker's own, and what judges them is what judges a session's runs; sessions and
launchers are in the tests of planted faults. That a fault is found says little where a right
training is refused as well, so each suite trains rightly first.

Each training takes seconds. The gate has the right one of every suite and one fault, another
from suite to suite, so that each fault is in it; the nightly layer has all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import EndReason, LaunchPlan, Run, RunEnd, RunSummary
from pytest_dlperf.core.wire import RankArguments
from pytest_dlperf.judge.convergence import Band, band
from pytest_dlperf.launch.launchers import launcher_of
from pytest_dlperf.measure.summary import summarise

ROOT = Path(__file__).parents[2]
WRONG_FALL = "fast but wrong"
NOT_FALLING = "the loss did not fall"
#: What says that a run with a fault is wrong, one of them. At rate 0, a loss with dropout is noise
#: that may fall by a little, and then it falls too little.
FOUND = {
    "learning-rate-0": (NOT_FALLING, WRONG_FALL),
    "not-averaged": ("gradients are not averaged",),
    "wrong-dtype": ("the case names fp32",),
    "shuffled-labels": (WRONG_FALL, NOT_FALLING),
}
#: These show in any few iterations, in which the loss need not fall yet.
SHORT = ("not-averaged", "wrong-dtype")


def case_of(framework: str, suite: str, fault: str, marker: Mapping[str, Any]) -> Case:
    """Return the suite's tiny case on two CPU devices; ``marker`` has what it needs beside."""
    keys = {"iterations": 40, "warmup": 10, **marker}
    if fault in SHORT:
        keys |= {"iterations": 8, "warmup": 4, "loss": "finite"}
    [case] = expand(
        workload=f"planted:{suite}", suite=suite, framework=framework, size="tiny", layout="1n2c",
        speedup=None, **keys,
    )  # fmt: skip
    return case


def words_of(case: Case, folder: Path) -> list[str]:
    """Return the command line of a rank, as the launcher writes it."""
    return [
        *RankArguments(
            framework=case.framework or "",
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
            place_from=launcher_of(case).place_variables,
            work=case.replica_work,
            parallel=case.parallel,
            devices_per_process=case.devices_of_process,
            uncounted_unit=case.unit if case.replica_work is None else "",
            options=dict(case.options),
        ).flags()
    ]


@dataclass(frozen=True)
class Trained:
    """All trainings of a framework's suites, each in a folder of its own."""

    framework: str
    markers: Mapping[str, Mapping[str, Any]]
    folder: Path

    def case(self, suite: str, fault: str) -> Case:
        """Return the case that was trained."""
        return case_of(self.framework, suite, fault, self.markers[suite])

    def summary(self, suite: str, fault: str = "") -> RunSummary:
        """Return what the run measured; raises ``CaseError`` where it is refused."""
        folder = self.folder / f"{suite}-{fault}"
        log = "".join(path.read_text() for path in sorted(folder.glob("output*.log")))
        (folder / "output.log").write_text(log, encoding="utf-8")
        case = self.case(suite, fault)
        plan = LaunchPlan(case_id=case.id, argv=(), env={}, workdir=str(folder), timeout_s=600.0)
        run = Run(
            plan=plan,
            exit_code=0,
            elapsed_s=1.0,
            started_at_s=0.0,
            end=RunEnd(reason=EndReason.EXITED),
            log=str(folder / "output.log"),
        )
        return summarise(case, run).summary

    def refusal(self, suite: str, fault: str, allowed: Band) -> str:
        """Return why a run is wrong, in words of the product; empty where nothing says so."""
        try:
            fall = self.summary(suite, fault).loss_fall
        except CaseError as error:
            return str(error)
        assert fall is not None
        return "" if allowed.low <= fall <= allowed.high else WRONG_FALL

    def assert_faults_are_found(self, suite: str, faults: Iterable[str]) -> None:
        """Assert that the suite trains, and that each fault is found by a sentence of its own."""
        right = self.summary(suite)
        assert len(right.ranks) == self.case(suite, "").ranks
        assert right.loss_fall is not None
        assert right.loss_fall > 0
        allowed = band("fp32", [right.loss_fall])
        for fault in faults:
            said = self.refusal(suite, fault, allowed)
            assert any(sentence in said for sentence in FOUND[fault]), (fault, said)


def gate_and_nightly(suites: Iterable[str]) -> list[Any]:
    """Return the parameters ``suite`` and ``faults``: of the gate, and of the nightly layer."""
    found = []
    for index, suite in enumerate(suites):
        gated = tuple(FOUND)[index % len(FOUND)]
        found.append(pytest.param(suite, (gated,), id=f"{suite}-{gated}"))
        found.append(pytest.param(suite, tuple(FOUND), id=suite, marks=pytest.mark.nightly))
    return found


def faults_asked_for(request: pytest.FixtureRequest) -> dict[str, set[str]]:
    """Return the faults of each suite that the tests of the module ask for, after ``-k`` too."""
    found: dict[str, set[str]] = {}
    for item in request.session.items:
        if item.module is request.module:
            given = item.callspec.params
            found.setdefault(given["suite"], set()).update(given["faults"])
    return found


def train_suites_of(
    framework: str,
    markers: Mapping[str, Mapping[str, Any]],
    faults_of: Mapping[str, Iterable[str]],
    workloads: Path,
    folder: Path,
) -> Trained:
    """Train suites, rightly and with faults, by the module ``planted`` of ``workloads``."""
    trained = Trained(framework, markers, folder)
    runs = []
    for suite, faults in faults_of.items():
        for fault in ("", *faults):
            case, of_run = trained.case(suite, fault), folder / f"{suite}-{fault}"
            runs.append((str(of_run), fault, case.ranks, words_of(case, of_run)))
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    script = Path(__file__).with_name("forked_ranks.py")
    subprocess.run(
        [sys.executable, str(script), framework, folder / "runs.json"],
        env={
            "PYTHONPATH": f"{ROOT}:{workloads}", "OMP_NUM_THREADS": "1",
            "HOME": str(folder), "PATH": os.environ["PATH"],
        },
        check=True,
        timeout=1800,
    )  # fmt: skip
    return trained
