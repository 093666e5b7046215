"""Fine-tuning with LoRA at tiny size: a program with one callback, started in two ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf_tests.sft_lora.cases import PROGRAM
from tests.helpers.perf_project import perf_test
from tests.helpers.suites import ROOT, train_suites
from tests.helpers.user_folder import Folder

pytestmark = [pytest.mark.torch, pytest.mark.nightly]
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)
#: Of a batch of four answers: an eighth, two, three and four eighths of 32.
TOKENS = 4 + 8 + 12 + 16
SHORT = ("--dlperf-iterations=30", "--dlperf-warmup=10")


def test_padding_is_no_work_and_ranks_are_counted(tmp_path: Path):
    done, outcomes = train_suites(tmp_path, "sft_lora", "--cpus=1,2", *SHORT)
    found = {}
    for outcome in outcomes:
        measured = outcome["measurement"]
        assert measured is not None, outcome["judgement"]["reason"]
        [run] = measured["runs"]
        words = "-".join(outcome["case"]["axes"])
        found[outcome["case"]["suite"], words, len(run["ranks"])] = run
        window_s = sum(run["step_seconds"][10:])
        work = 20 * TOKENS * len(run["ranks"])
        assert measured["throughput"] == pytest.approx(work / window_s, rel=0.02)
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
    ways = ("batching_packed", "batching_padded")
    assert set(found) == {
        *(("sft_lora", words, ranks) for words in ways for ranks in (1, 2)),
        *(("sft_lora_accelerate", words, 1) for words in ways),
    }, done.stdout
    assert "accelerate starts several processes on CPUs by MPI alone" in done.stdout


def test_accelerate_starts_two_ranks(folder: Folder):
    """Its own option for several GPUs, which looks for none: on CPUs it would ask for MPI."""
    launch = ["python", "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=1"]
    program = [word.replace("{batching}", "padded") for word in PROGRAM[1:]]
    test = perf_test(
        command=[
            *launch, "--num_processes={world_size}", "--mixed_precision=no", "--dynamo_backend=no",
            str(ROOT / "perf_tests" / "sft_lora" / "train.py"), *program,
        ],
        launcher=None, framework="torch", size="tiny", batch_size_per_device=4, unit="tokens",
        speedup=None, layout="1n2c", iterations=30, warmup=10,
    )  # fmt: skip
    folder.write_tests(test)
    once = ("-p", "tests.helpers.no_repeats", "--dlperf-runs=1", "--dlperf-max-runs=1")
    _, [outcome] = folder.run(*once)
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    [run] = outcome["measurement"]["runs"]
    assert len(run["ranks"]) == 2
