"""LoRA fine-tuning on two ranks: the loss falls, and faults are found in a program with marks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perf_tests.sft_lora.cases import CASES
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.wire import MarkSettings
from tests.helpers.planted_suites import FOUND, ROOT, SHORT, Trained

# Hugging Face's packages are in the nightly environment alone.
pytestmark = [pytest.mark.torch, pytest.mark.nightly]
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)
FAULTS = {**FOUND, "wrong-dtype": ("the case names fp32",)}


class Program(Trained):
    """The trainings of a program with marks."""

    def case(self, suite: str, fault: str) -> Case:
        [case] = [
            case
            for case in CASES
            if case.id.startswith("sft_lora.tiny-")
            and "padded" in case.id
            and case.id.endswith("-1n2c")
        ]
        iterations = 20 if fault in SHORT else 60
        return replace(case, protocol=replace(case.protocol, iterations=iterations, warmup=10))


def settings_of(case: Case, folder: Path) -> str:
    """Return the marks' settings, as the launch plan makes them."""
    return MarkSettings(
        records=str(folder),
        iterations=case.protocol.iterations,
        warmup=case.protocol.warmup,
        work=case.replica_work,
        world_size=case.world_size,
        place=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        framework=case.framework or "",
        unit=case.unit,
        precision=case.precision,
    ).to_json()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("planted")
    program, runs = Program("torch", {}, folder), []
    for fault in ("", *FAULTS):
        case, of_run = program.case("sft_lora", fault), folder / f"sft_lora-{fault}"
        words = ["--batching=padded", f"--iterations={case.protocol.iterations}"]
        runs.append((str(of_run), fault, settings_of(case, of_run), words))
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    script = Path(__file__).with_name("planted_sft_lora.py")
    subprocess.run(
        [sys.executable, str(script), folder / "runs.json"],
        env={
            "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HOME": str(folder),
            "PATH": os.environ["PATH"], "ACCELERATE_USE_CPU": "true",
        },
        check=True,
        timeout=1800,
    )  # fmt: skip
    return program


def test_it_trains_and_its_faults_are_found(trained: Program):
    trained.assert_faults_are_found("sft_lora", FOUND)
