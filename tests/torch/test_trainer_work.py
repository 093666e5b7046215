"""The callbacks count what trainers trained on: real trainers, whose batches are not all whole."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
#: By trainer: whether each program counts ``rows`` or ``tokens``, or what its error says.
PROGRAMS = {
    "huggingface": {
        "plain": "rows",
        "last_batch": "rows",
        "last_accumulation": "rows",
        "both": "rows",
        "lowered": "rows",
        "called_twice": "rows",
        "workers": "rows",
        "iterable": "rows",
        "evaluates": "rows",
        "epochs": "rows",
        "function": "tokens",
        "constant_in_part": "a step had 1 of 4 rows",
        "packed": "show no rows that can be counted",
        "packed_in_part": "a step had 1 of 4 batches",
        "two_callbacks": "a step began within a step: that of StepCallback",
    },
    "lightning": {
        "plain": "rows",
        "last_batch": "rows",
        "evaluates": "rows",
        "function": "tokens",
        "constant_in_part": "a step had 1 of 4 rows",
        "packed": "show no rows that can be counted",
    },
}
#: Phases that are left out of the rate.
PHASES = {
    ("huggingface", "evaluates"): {"evaluation", "checkpoint"},
    ("huggingface", "epochs"): {"evaluation", "checkpoint"},
    ("lightning", "evaluates"): {"validation"},
}
#: What each trainer needs.
PACKAGES = {"huggingface": ["transformers", "accelerate"], "lightning": ["lightning"]}


class Trained(NamedTuple):
    records: list[dict[str, Any]]
    #: Of the model in training mode.
    rows: int
    tokens: int

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["record"] == kind]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Trained]:
    """One process a trainer, which is imported once; every program is a fork of it."""
    found = {}
    for trainer, programs in PROGRAMS.items():
        if not all(map(importlib.util.find_spec, PACKAGES[trainer])):
            continue
        folder = tmp_path_factory.mktemp(trainer)
        command = [sys.executable, "-m", "tests.torch.trained_rows", trainer, str(folder)]
        run = subprocess.run(
            [*command, *programs, "skips"] if trainer == "lightning" else [*command, *programs],
            cwd=ROOT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        for name in (path.name for path in folder.iterdir()):
            assert (folder / name / "seen.json").exists(), run.stdout[-2000:] + run.stderr[-2000:]
            rows, tokens = json.loads((folder / name / "seen.json").read_text())
            lines = (folder / name / "rank00000.jsonl").read_text().splitlines()
            found[trainer, name] = Trained([json.loads(line) for line in lines], rows, tokens)
    return found


@pytest.mark.parametrize(
    ("trainer", "name"), [(trainer, name) for trainer, names in PROGRAMS.items() for name in names]
)
def test_the_work_is_what_was_trained(
    trained: dict[tuple[str, str], Trained], trainer: str, name: str
):
    """Up to twice of it was counted, and nobody said so."""
    if (trainer, name) not in trained:
        pytest.skip(f"{trainer} is not installed (tox env torch-nightly)")
    program, counted = trained[trainer, name], PROGRAMS[trainer][name]
    spans = program.of("span")
    if counted not in {"rows", "tokens"}:
        [failure] = program.of("failure")
        assert counted in failure["message"]
        assert not spans
        return
    assert not program.of("failure")
    assert len(spans) == 12
    assert sum(span["work"] for span in spans) == getattr(program, counted) > 0
    assert min(span["data_wait_seconds"] for span in spans) >= 0
    [window] = program.of("window")
    phases = PHASES.get((trainer, name), set())
    assert set(window.get("left_out", {})) == phases
    metrics = program.of("metrics")
    assert phases == {
        metric.removesuffix("_seconds") for one in metrics for metric in one["values"]
    }


def test_a_batch_that_lightning_skips_is_in_no_step(trained: dict[tuple[str, str], Trained]):
    if ("lightning", "skips") not in trained:
        pytest.skip("lightning is not installed (tox env torch-nightly)")
    program = trained["lightning", "skips"]
    assert [span["work"] for span in program.of("span")] == [4] * 12
    assert not program.of("failure")
