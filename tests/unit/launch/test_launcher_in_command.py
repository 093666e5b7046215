"""Launchers: those that a marker names, and those inside a user's command."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.place import Host
from pytest_dlperf.launch import launcher_in_command
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.launchers.srun import SrunLauncher
from pytest_dlperf.launch.plan import make_plan

TARGET = Target(python="/env/bin/python", python_path=(), threads_per_rank=1, folder="/tests")
KEYS: dict[str, Any] = {"suite": "net", "batch_size_per_device": 4}


def program(*command: str, layout: str = "1n2c", **keys: Any) -> Case:
    return expand(command=list(command), layout=layout, **{"launcher": None, **KEYS, **keys})[0]


def started(launcher: str, layout: str = "1n2c", **keys: Any) -> tuple[list[str], dict[str, str]]:
    """Return the words before the rank's own command, and the environment."""
    trained = {} if "command" in keys else {"workload": "m:build"}
    case = expand(layout=layout, launcher=launcher, **trained, **KEYS, **keys)[0]
    plan = make_plan(case, TARGET, Path("/r"))
    return list(plan.argv[: plan.argv.index("/env/bin/python")]), dict(plan.env)


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("accelerate", "deepspeed", "srun"):
        monkeypatch.setattr(f"pytest_dlperf.launch.launchers.{module}.free_port", lambda: 1234)
    monkeypatch.setattr(launcher_in_command, "_listens", lambda port: False)
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)


def test_accelerate():
    words, env = started("accelerate", precision="bf16")
    assert words[1:] == [
        "launch", "--multi_gpu", "--max_restarts=0", "--tee=3", "--log_dir=/r/accelerate",
        "--num_machines=1", "--num_processes=2", "--machine_rank=0",
        "--main_process_ip=127.0.0.1", "--main_process_port=1234", "--mixed_precision=bf16",
        "--dynamo_backend=no", "--no_python",
    ]  # fmt: skip
    assert env["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in started("accelerate", "1n2g")[1]


def test_accelerate_on_one_device_and_on_several_nodes():
    words, env = started("accelerate", "1n1c")
    assert "--multi_gpu" not in words
    assert words[-3:] == ["--no_python", "env", "ACCELERATE_USE_CPU=true"]
    assert started("accelerate", "1n1g")[0][-1] == "--no_python"
    assert env["WORLD_SIZE"] == "1"
    words, _ = started("accelerate", "4n8g", precision="amp")
    for word in ("--num_machines=4", "--num_processes=32", "--machine_rank=${NODE_RANK}",
                 "--main_process_ip=${MASTER_ADDR}", "--mixed_precision=fp16"):  # fmt: skip
        assert word in words


def test_deepspeed(monkeypatch: pytest.MonkeyPatch):
    words, _ = started("deepspeed")
    assert words[1:] == [
        "--hostfile=/r/no-hostfile", "--num_gpus=2", "--master_addr=127.0.0.1",
        "--master_port=1234", "--no_python", "--no_local_rank",
    ]  # fmt: skip
    words, _ = started("deepspeed", command=["python", "x.py"])
    assert "--no_local_rank" not in words
    assert "--include=localhost:0,1" in started("deepspeed", "1n2g")[0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5,7")
    assert "--include=localhost:2,5" in started("deepspeed", "1n2g")[0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    with pytest.raises(UsageError, match="takes numbers of GPUs, and CUDA_VISIBLE_DEVICES is GPU"):
        started("deepspeed", "1n2g")
    with pytest.raises(UsageError, match="'deepspeed' starts one node, the layout 2n1c has 2"):
        started("deepspeed", "2n1c")


def test_srun(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UsageError, match="starts ranks in the job that the session is in, and"):
        started("srun")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    # In salloc's own shell, which is not on the node
    with pytest.raises(UsageError, match="this session is on another host"):
        started("srun")
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    words, env = started("srun")
    assert words == [
        "srun", "--nodes=1", "--nodelist=n3", "--ntasks=2", "--overlap", "--cpu-bind=none",
        "--mpi=none", "--kill-on-bad-exit=1", "--unbuffered", "--export=ALL",
    ]  # fmt: skip
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("127.0.0.1", "1234")
    # The node of the case, where the session is on another one of the job
    case = expand(layout="1n2c", launcher="srun", workload="m:build", **KEYS)[0]
    target = replace(TARGET, hosts=(Host(name="n5", devices=2),))
    assert "--nodelist=n5" in SrunLauncher().argv(case, target, Path("/r"))
    with pytest.raises(UsageError, match="'srun' starts one node, the layout 2n1c has 2"):
        started("srun", "2n1c")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["accelerate", "launch", "--num_processes=4", "x.py"], "starts 4 ranks"),
        (["accelerate", "launch", "--num_machines", "2", "x.py"], "starts 2 nodes"),
        (["deepspeed", "--num_gpus", "1", "x.py"], "starts 1 ranks a node"),
        (["/env/bin/torchrun", "--nproc-per-node=8", "x.py"], "starts 8 ranks a node"),
        (["python", "-m", "torch.distributed.run", "--nproc_per_node", "1", "x.py"], "starts 1 r"),
        (["python3.11", "-m", "torch.distributed.run", "--nnodes=3", "x.py"], "starts 3 nodes"),
        (["torchrun", "--standalone", "x.py"], "starts 1 ranks a node"),
        (["srun", "-n", "16", "python", "x.py"], "starts 16 ranks"),
        (["srun", "-n16", "python", "x.py"], "starts 16 ranks"),
        (["srun", "--nodes=1", "--ntasks-per-node=3", "python", "x.py"], "starts 3 ranks a node"),
    ],
)
def test_other_ranks_than_those_of_the_layout_are_an_error(command: list[str], says: str):
    with pytest.raises(CaseError, match=f"the command {says}.*{{world_size}}"):
        make_plan(program(*command), TARGET, Path("/r"))


@pytest.mark.parametrize(
    "command",
    [
        ["accelerate", "launch", "--num_processes={world_size}", "x.py", "--num_processes=9"],
        ["torchrun", "--standalone", "--nproc-per-node=2", "x.py"],
        ["torchrun", "--nproc-per-node=auto", "x.py"],
        ["deepspeed", "x.py"],
        ["srun", "-n2", "python", "x.py"],
        ["python", "x.py", "--nproc-per-node=5"],
    ],
)
def test_what_is_the_layouts_own_or_not_said_is_started(command: list[str]):
    assert make_plan(program(*command), TARGET, Path("/r")).argv[1:]


def test_a_variable_of_torchrun_says_how_many_ranks_it_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "2")
    assert make_plan(program("torchrun", "x.py"), TARGET, Path("/r")).argv == ("torchrun", "x.py")


@pytest.mark.parametrize("launcher", ["auto", "torchrun", "accelerate"])
def test_a_launcher_that_another_would_start_once_a_rank_is_an_error(launcher: str):
    with pytest.raises(CaseError, match=r"starts all ranks, and .* start it 2 times; say launche"):
        make_plan(program("deepspeed", "x.py", launcher=launcher), TARGET, Path("/r"))
    one = program("deepspeed", "x.py", layout="1n1c", launcher="auto")
    assert make_plan(one, TARGET, Path("/r")).argv == ("deepspeed", "x.py")


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def test_a_port_on_which_something_listens_is_an_error(busy: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    named = program("accelerate", "launch", f"--main_process_port={busy}", "x.py")
    with pytest.raises(CaseError, match=f"something listens on port {busy} of this host, so"):
        make_plan(named, TARGET, Path("/r"))


def test_the_port_that_a_launcher_takes_by_itself_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launcher_in_command, "_listens", lambda port: port == 29500)
    with pytest.raises(CaseError, match="port 29500 of this host, which torchrun takes where no"):
        make_plan(program("torchrun", "--nproc-per-node=2", "x.py"), TARGET, Path("/r"))
    for word in ("--standalone", "--master-port=29501"):
        own = program("torchrun", word, "--nproc-per-node=2", "x.py")
        assert make_plan(own, TARGET, Path("/r")).argv[1] == word
