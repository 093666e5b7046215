"""What a workload does to PyTorch's flags for TF32 is read after the window."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.wire import RankArguments
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


#: Workers of cases on a GPU, whose trainings are on the CPU: flags and records are real. A fork
#: each, as above.
WORKERS = """
import json, os, sys, torch, torch.utils.flop_counter
from dataclasses import replace
from pytest_dlperf.worker import __main__ as worker
from pytest_dlperf.worker.frameworks.torch import framework

join = worker._join
worker._join = lambda arguments: join(replace(arguments, device="cpu"))
for flags in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        sys.argv[1:] = flags
        try:
            worker.main()
        finally:
            worker._leave()
    os.waitpid(child, 0)
"""

#: Precision of a case, and what its workload does -> the message of the rank's failure, if any.
ON_A_GPU = {
    ("fp32", "nothing"): "",
    ("fp32", "high"): "after the measured window TF32 is on for matmul",
    # What ends with the step is gone when the window is over.
    ("fp32", "high-in-step"): "looked at TF32 was on for matmul; leave it off in the step",
    ("fp32", "cudnn-flags-in-step"): "looked at TF32 was on for cudnn;",
    ("tf32", "nothing"): "",
    ("tf32", "high-in-step"): "after the measured window TF32 is off for matmul",
}


@pytest.fixture(scope="module")
def on_a_gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what each rank recorded, by the name of the record."""
    ranks = {
        (precision, says): RankArguments(
            framework="torch", workload="shorter:build", precision=precision, device="gpu",
            size="tiny", loss="finite", batch_size_per_device=8, work=8, world_size=1,
            iterations=6, warmup=3, threads_per_rank=1, collective_timeout_s=60.0, seed=1,
            options={"says": says}, place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            records=str(tmp_path_factory.mktemp("rank")),
        )
        for precision, says in ON_A_GPU
    }  # fmt: skip
    flags = [rank.flags() for rank in ranks.values()]
    subprocess.run(
        [sys.executable, "-c", WORKERS, json.dumps(flags)], cwd=HERE, capture_output=True,
        check=True,
    )  # fmt: skip
    recorded = {}
    for name, rank in ranks.items():
        lines = (Path(rank.records) / "rank00000.jsonl").read_text(encoding="utf-8").splitlines()
        recorded[name] = {one["record"]: one for one in map(json.loads, lines)}
    return recorded


@pytest.mark.parametrize(("precision", "says"), ON_A_GPU)
def test_a_rank_of_a_gpu_case_fails_by_what_its_workload_does_to_the_flags(
    on_a_gpu: dict[tuple[str, str], dict[str, Any]], precision: str, says: str
):
    found, message = on_a_gpu[precision, says], ON_A_GPU[precision, says]
    if not message:
        assert "end" in found, found
        return
    assert "end" not in found
    assert found["failure"]["code"] == "precision-mismatch", found["failure"]
    assert message in found["failure"]["message"]


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
