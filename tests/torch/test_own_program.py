"""Programs of a user's own, for real: the examples, trainers with callbacks, and odd ones."""

from __future__ import annotations

import importlib.util
import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

MARK = "from pytest_dlperf.mark import step\n"
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(pytester: pytest.Pytester, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    results = pytester.path / "r.json"
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", f"--dlperf-json={results}", "--dlperf-runs=1", *arguments
    )
    return result.ret, json.loads(results.read_text(encoding="utf-8"))["outcomes"]


@pytest.mark.parametrize("name", ["own_program", "marked_program"])
def test_examples(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.mkdir("runtime")))
    shutil.copytree(EXAMPLES / name, pytester.path, dirs_exist_ok=True)
    code, outcomes = run(pytester, "--cpus=1,2")
    assert code == 0
    assert len(outcomes) == 2
    for outcome in outcomes:
        # Others may use the machine: then it is incomparable before it has no baseline.
        assert outcome["judgement"]["verdict"] in {"no-baseline", "incomparable", "unsteady"}
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
        from pytest_dlperf.callbacks.huggingface import StepCallback

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
        from pytest_dlperf.callbacks.lightning import StepCallback

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


def write(pytester: pytest.Pytester, program: str, *words: str, **marker: Any) -> None:
    pytester.makepyfile(program=textwrap.dedent(program))
    keys = {"layout": "1n1c", "batch_size_per_device": 4, "iterations": 30, "warmup": 10, **marker}
    arguments = ", ".join(f"{key}={value!r}" for key, value in keys.items())
    command = ["python", "program.py", *words]
    pytester.makepyfile(
        test_net=f"""
        import pytest
        from pytest_dlperf import pattern
        @pytest.mark.dlperf(command={command!r}, framework="torch", {arguments})
        def test_net(dlperf):
            dlperf.run()
        """
    )


@pytest.mark.parametrize("factor", ["1", "nan"])
@pytest.mark.parametrize("name", TRAINERS)
def test_trainers_that_own_the_loop(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, factor: str
):
    package = {"huggingface": "transformers"}.get(name, name)
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; tox -e torch brings it")
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.mkdir("runtime")))
    write(pytester, TRAINERS[name], "{iterations}", factor)
    code, [outcome] = run(pytester)
    if factor == "nan":
        assert code == 1
        assert "told a loss that is no finite number" in outcome["judgement"]["reason"]
        return
    assert code == 0, outcome["judgement"]["reason"]
    measured = outcome["measurement"]["runs"][0]
    assert len(measured["step_seconds"]) == 30
    assert measured["ranks"][0]["loss_first"] > 0
    assert outcome["environment"]["software"]["torch"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('hello')", "its log gives no throughput"),
        ("raise SystemExit('no data')", "the program ended with exit code 1"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        (
            f"{MARK}for _ in range(12):\n    with step(): pass",
            "the program ended after 12 marked steps, and 30 are measured",
        ),
        (
            f"{MARK}for i in range(40):\n    with step(): 1 / (9 - i)",
            "rank 0: ZeroDivisionError",
        ),
        (
            f"{MARK}for i in range(40):\n    with step() as s: s.loss(float('nan'))",
            "no finite number",
        ),
        ("import time; time.sleep(60)", "timed out after 3 s"),
        (
            f"import numpy\n{MARK}for i in range(40):\n    with step(): pass\nraise SystemExit(3)",
            "the program ended with exit code 3; every rank had trained its 30 iterations before",
        ),
        (f"{MARK}for i in range(40):\n    with step(): pass", "the program trained nothing"),
        (
            f"import numpy, subprocess, sys, time\n{MARK}for i in range(40):\n"
            "    with step(): time.sleep(0.001)\n"
            "if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'child'])",
            "2 processes marked as rank 0 (pid ",
        ),
    ],
)
def test_programs_that_cannot_be_measured(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, program: str, message: str
):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.mkdir("runtime")))
    write(pytester, program, timeout_s=3.0 if "timed out" in message else 60.0)
    code, [outcome] = run(pytester)
    assert code == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]


def test_ranks_whose_lines_mix_are_read_one_by_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.mkdir("runtime")))
    program = """
        import os, sys, time
        rate = 100 if os.environ.get("RANK", "0") == "0" else 300
        for i in range(40):
            sys.stdout.write(f"it {i} "); time.sleep(0.001)
            sys.stdout.write(f"speed {rate} it/s\\n")
    """
    log = r"it (?P<step>\d+) speed (?P<rate>\d+) it/s"
    write(pytester, program, layout="1n2c")
    test = (pytester.path / "test_net.py").read_text()
    test = test.replace("framework=", f'log_format=pattern(r"{log}", scope="device"), framework=')
    (pytester.path / "test_net.py").write_text(test)
    code, [outcome] = run(pytester)
    assert code == 0, outcome["judgement"]["reason"]
    assert outcome["measurement"]["throughput"] == pytest.approx(200)
