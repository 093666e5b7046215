"""What a workload does to PyTorch's flags for TF32 is read after the window."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.wire_model import ArithmeticRecord
from pytest_dlperf.worker.failure import WorkerFailure, check_tf32
from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch

#: What a workload says -> what may use TF32 afterwards, in a case that names fp32.
SAID = {
    "pass": {"matmul": False, "cudnn": False},
    "torch.set_float32_matmul_precision('high')": {"matmul": True, "cudnn": False},
    "torch.set_float32_matmul_precision('medium')": {"matmul": True, "cudnn": False},
    "backends.cuda.matmul.allow_tf32 = True": {"matmul": True, "cudnn": False},
    "backends.cudnn.allow_tf32 = True": {"matmul": False, "cudnn": True},
    "backends.cuda.matmul.fp32_precision = 'tf32'": {"matmul": True, "cudnn": False},
    "backends.cudnn.conv.fp32_precision = 'tf32'": {"matmul": False, "cudnn": True},
    "backends.fp32_precision = 'tf32'": {"matmul": False, "cudnn": True},
}
#: Each in a fork: flags belong to a process, and one API forbids to read the other.
PROGRAM = """
import json, os, sys, torch
from torch import backends
from pytest_dlperf.worker.frameworks.torch.watch import set_tf32, tf32

for said in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        set_tf32(on=False)
        exec(said)
        print(json.dumps([said, tf32()]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, bool]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(list(SAID))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("said", SAID)
def test_flags_are_read_by_the_api_that_is_in_force(found: dict[str, Any], said: str):
    assert found[said] == SAID[said]


@pytest.mark.parametrize("said", [said for said in SAID if said != "pass"])
def test_a_workload_that_turns_tf32_on_is_an_error_on_a_gpu(found: dict[str, Any], said: str):
    """The flags are those of a workload, the device is simulated."""
    facts = ArithmeticRecord(tf32=found[said], overrides={}, product_error=None)
    with pytest.raises(WorkerFailure, match="TF32 is on for"):
        check_tf32(facts, "fp32", on_gpu=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One workload turns TF32 on, as most user code does; one has shorter products."""
    common = {"workload": "shorter:build", "layout": "1n1c"}
    return run_together(
        tmp_path_factory.mktemp("tf32"),
        {
            "high": {**common, "options": {"says": "high"}},
            "products": {**common, "options": {"says": "short-products"}},
        },
        workloads=HERE,
        environment={"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "0"},
    )


def arithmetic(path: Path) -> ArithmeticRecord:
    lines = path.read_text(encoding="utf-8").splitlines()
    [record] = [one for one in map(json.loads, lines) if one["record"] == "arithmetic"]
    return ArithmeticRecord(
        tf32=record["tf32"],
        overrides=record["overrides"],
        product_error=record["product_error"],
    )


def test_on_a_cpu_the_flags_are_recorded_and_do_nothing(trained: OneSession):
    ended = trained["high"]
    assert ended.verdict != "error", ended.reason
    case = ended.outcome["case"]["id"]
    [path] = trained.folder.path.glob(f".dlperf/*/{case}/run1/rank00000.jsonl")
    record = arithmetic(path)
    assert record["tf32"] == {"matmul": True, "cudnn": False}
    assert record["overrides"] == {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "0"}
    software = ended.outcome["environment"]["software"]
    assert software["tf32 in force"] == (
        "matmul on, cudnn off; TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=0"
    )


def test_float32_products_that_are_shorter_are_an_error(trained: OneSession):
    trained["products"].assert_error("a float32 product has a relative error of 0.00")


def test_a_float32_product_of_this_cpu_is_one():
    torch = pytest.importorskip("torch")
    from pytest_dlperf.worker.frameworks.torch.watch import product_error

    assert product_error(torch.device("cpu")) < 1e-6
