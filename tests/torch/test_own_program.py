"""Programs of a user's own, for real: the examples, trainers with callbacks, and odd ones."""

from __future__ import annotations

import importlib.util
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE, Folder

pytestmark = pytest.mark.torch

MARK = "from pytest_dlperf.mark import step\n"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name", [pytest.param("own_program", marks=pytest.mark.nightly), "marked_program"]
)
def test_examples(folder: Folder, name: str):
    (folder.path / "test_net.py").unlink()
    shutil.copytree(EXAMPLES / name, folder.path, dirs_exist_ok=True)
    result, outcomes = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-runs=1", "--dlperf-max-runs=1", "--cpus=1,2"
    )
    assert result.ret == 0
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        measured = outcome["measurement"]["runs"][0]
        assert measured["throughput"] > 0
        assert outcome["measurement"]["conditions"]["data"] == "own"
        assert "train.py" in outcome["measurement"]["conditions"]["options"]["command"]
    two = outcomes[1]["measurement"]
    assert two["speedup"] > 0
    if name == "marked_program":
        assert len(two["runs"][0]["ranks"]) == 2
        assert two["runs"][0]["peak_memory_bytes"] > 1_000_000
        assert two["runs"][0]["data_wait_share"] > 0
        assert two["runs"][0]["ranks"][0]["loss_first"] > 0
    else:
        assert two["peak_memory_bytes"] is None


TRAINERS = {
    "huggingface": """
        import sys, torch, transformers
        from pytest_dlperf.mark.huggingface import StepCallback

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(8, 1)
            def forward(self, x, labels):
                y = self.linear(x)
                loss = (y - labels).square().mean() * float(sys.argv[2])
                return {"loss": loss, "logits": y}

        data = [{"x": torch.randn(8), "labels": torch.randn(1)} for _ in range(64)]
        arguments = transformers.TrainingArguments(
            output_dir="out", max_steps=int(sys.argv[1]), per_device_train_batch_size=4,
            report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=5,
        )
        transformers.Trainer(
            Net(), arguments, train_dataset=data, callbacks=[StepCallback()]
        ).train()
    """,
    "lightning": """
        import sys, torch, lightning
        from pytest_dlperf.mark.lightning import StepCallback

        class Net(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(8, 1)
            def training_step(self, batch, index):
                return self.linear(batch).square().mean() * float(sys.argv[2])
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4)
        lightning.Trainer(
            max_steps=int(sys.argv[1]), accelerator="cpu", devices=1, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, callbacks=[StepCallback()],
        ).fit(Net(), loader)
    """,
}


#: By a word for each: a program, and what its error says.
PROGRAMS = {
    "no_throughput": ("print('hello')", "its log gives no throughput"),
    "exits": ("raise SystemExit('no data')", "the program ended with exit code 1"),
    "no_module": ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
    "too_few_steps": (
        f"{MARK}for _ in range(12):\n    with step(): pass",
        "the program ended after 12 marked steps, and 30 are measured",
    ),
    "divides_by_zero": (
        f"{MARK}for i in range(40):\n    with step(): 1 / (9 - i)",
        "rank 0: ZeroDivisionError",
    ),
    "nan": (
        f"{MARK}for i in range(40):\n    with step() as s: s.loss(float('nan'))",
        "not a finite number",
    ),
    "marks_twice": (
        f"import numpy\n{MARK}for i in range(40):\n    with step():\n        with step(): pass",
        "program_marks_twice.py:5 within that of",
    ),
    "work_is_text": (
        f"import numpy\n{MARK}for i in range(40):\n    with step(work='8'): pass",
        "a marked step says work='8'",
    ),
    "sleeps": ("import time; time.sleep(60)", "timed out after 3 s"),
    "exits_at_its_end": (
        f"import numpy\n{MARK}for i in range(40):\n    with step(): pass\nraise SystemExit(3)",
        "the program ended with exit code 3; every rank had trained its 30 iterations before",
    ),
    "trains_nothing": (
        f"{MARK}for i in range(40):\n    with step(): pass",
        "the program trained nothing",
    ),
    "two_of_rank_0": (
        f"import numpy, subprocess, sys, time\n{MARK}for i in range(40):\n"
        "    with step(): time.sleep(0.001)\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'child'])",
        "2 processes marked as rank 0 (pid ",
    ),
}
PACKAGES = {"huggingface": "transformers", "lightning": "lightning"}


def keys_of(name: str, *words: str, **marker: Any) -> dict[str, Any]:
    return {
        "command": ["python", f"program_{name}.py", *words],
        "framework": "torch", "layout": "1n1c", "batch_size_per_device": 4, **marker,
    }  # fmt: skip


def installed() -> list[str]:
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One session: trainers that own the loop, and programs that cannot be measured."""
    path = tmp_path_factory.mktemp("programs")
    tests = {}
    for name in installed():
        (path / f"program_{name}.py").write_text(textwrap.dedent(TRAINERS[name]), encoding="utf-8")
        for factor in ("1", "nan"):
            tests[f"{name}_{factor}"] = keys_of(name, "{iterations}", factor)
    for name, (program, _) in PROGRAMS.items():
        (path / f"program_{name}.py").write_text(program, encoding="utf-8")
        tests[name] = keys_of(name, timeout_s=3.0 if name == "sleeps" else 240.0)
    return run_together(path, tests, workloads=HERE)


@pytest.mark.parametrize("name", TRAINERS)
def test_trainers_that_own_the_loop(programs: OneSession, name: str):
    if name not in installed():
        pytest.skip(f"{PACKAGES[name]} is not installed (tox env torch-nightly)")
    right = programs[f"{name}_1"]
    assert right.ended != "failed", right.reason
    run = right.measurement["runs"][0]
    assert len(run["step_seconds"]) == 30
    assert run["ranks"][0]["loss_first"] > 0
    assert right.outcome["environment"]["software"]["torch"]
    programs[f"{name}_nan"].assert_error("reported a loss that is not a finite number")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_cannot_be_measured(programs: OneSession, name: str):
    assert programs.exit_code == 1
    programs[name].assert_error(PROGRAMS[name][1])


def test_ranks_whose_lines_mix_are_read_one_by_one(folder: Folder):
    folder.write_file(
        "program.py",
        """
        import os, sys, time
        rate = 100 if os.environ.get("RANK", "0") == "0" else 300
        for i in range(40):
            sys.stdout.write(f"it {i} "); time.sleep(0.001)
            sys.stdout.write(f"speed {rate} it/s\\n")
        """,
    )
    log = r"it (?P<step>\d+) speed (?P<rate>\d+) it/s"
    folder.write_file(
        "test_net.py",
        f"""
        import pytest
        from pytest_dlperf import pattern
        @pytest.mark.dlperf(command=["python", "program.py"], framework="torch", layout="1n2c",
                            log_format=pattern(r"{log}", scope="device"), runs=1, max_runs=1,
                            batch_size_per_device=4, iterations=30, warmup=10, speedup=None)
        def test_net(dlperf):
            dlperf.run()
        """,
    )
    result, [outcome] = folder.run("-p", "tests.helpers.no_repeats")
    assert result.ret == 0, outcome["judgement"]["reason"]
    assert outcome["measurement"]["throughput"] == pytest.approx(200)
