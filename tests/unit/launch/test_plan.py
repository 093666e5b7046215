from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.arm import ReadyArm, Reported, Tree
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UnknownNameError, UsageError
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.place import NodePart
from pytest_dlperf.core.wire import MARK_VARIABLE, MarkSettings
from pytest_dlperf.launch.base import Target, collective_timeout_s
from pytest_dlperf.launch.plan import apply_arm, asked_threads, fill_in, make_plan
from pytest_dlperf.launch.trace import make_trace_plan
from pytest_dlperf.worker import arguments

TARGET = Target(python="/env/bin/python", python_path=("/home/x",), threads_per_rank=3)


def case(layout: str, **keys: object) -> Case:
    work = {} if "command" in keys else {"workload": "m:build"}
    return expand(suite="tsm", batch_size_per_device=16, layout=layout, **work, **keys)[0]


def test_one_rank_is_plain_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "64")
    plan = make_plan(case("1n1g"), TARGET, Path("/runs/r1"))
    assert plan.argv[:3] == ("/env/bin/python", "-m", "pytest_dlperf.worker")
    assert plan.env["WORLD_SIZE"] == "1"
    assert plan.env["OMP_NUM_THREADS"] == "3"


def test_a_trace_goes_through_sets_in_one_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    plan = make_trace_plan(case("1n8g"), TARGET, Path("/runs/r1"))
    assert plan.env["PYTHONHASHSEED"] == "0"


@pytest.mark.parametrize(("layout", "on_gpu"), [("1n1g", True), ("1n1c", False)])
def test_marks_know_what_their_canary_measures(layout: str, on_gpu: bool):
    program = case(layout, command=["python", "t.py"], precision="bf16")
    plan = make_plan(program, TARGET, Path("/runs/r1"))
    settings = MarkSettings.of_json(plan.env[MARK_VARIABLE])
    assert (settings.on_gpu, settings.precision) == (on_gpu, "bf16")


def test_several_ranks_start_under_torchrun():
    plan = make_plan(case("1n8g", precision="amp"), TARGET, Path("/runs/r1"))
    assert plan.argv[0].endswith("torchrun")
    port = plan.argv[4].rpartition(":")[2]
    assert plan.argv[1:10] == (
        "--nnodes=1",
        "--node-rank=0",
        "--rdzv-backend=static",
        f"--rdzv-endpoint=127.0.0.1:{int(port)}",
        "--rdzv-id=tsm-torch-amp-bs16-1n8g-r1",
        "--nproc-per-node=8",
        "--max-restarts=0",
        "--log-dir=/runs/r1/torchrun",
        "--tee=3",
    )
    assert "--precision=amp" in plan.argv


def test_gloo_stays_off_the_network_on_one_node_unless_the_user_names_an_interface(
    monkeypatch: pytest.MonkeyPatch,
):
    def interface(layout: str) -> str | None:
        return make_plan(case(layout), TARGET, Path("/r")).env.get("GLOO_SOCKET_IFNAME")

    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert [interface(layout) for layout in ("1n2c", "1n1c", "4n8g")] == ["lo", None, None]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert interface("1n2c") is None


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_no_variable_makes_torchrun_meet_by_standalone(launcher: str):
    plan = make_plan(case("1n2c", launcher=launcher), TARGET, Path("/r"))
    assert plan.env["PET_STANDALONE"] == "0"


def test_ranks_sample_scaling_where_they_are_asked_and_there_are_several():
    flag = "--scaling"
    assert flag in make_plan(case("1n2c"), TARGET, Path("/runs/r1")).argv
    assert flag not in make_plan(case("1n1c"), TARGET, Path("/runs/r1")).argv
    silent = make_plan(case("1n2c"), replace(TARGET, scaling=False), Path("/runs/r1"))
    assert flag not in silent.argv


def test_several_nodes_name_a_rendezvous():
    argv = make_plan(case("4n8g"), TARGET, Path("/runs/r1")).argv
    assert "--nnodes=4" in argv
    assert "--node-rank=${NODE_RANK}" in argv
    assert "--rdzv-backend=static" in argv
    assert "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}" in argv
    assert "--rdzv-id=tsm-torch-fp32-bs16-4n8g-r1" in argv


def test_a_node_part_has_its_place_in_the_command_and_its_records_in_the_shared_folder():
    part = NodePart(node_rank=2, master_addr="10.11.0.2", master_port=29500)
    target = replace(TARGET, node_part=part, shared_records=Path("/nfs/c"))
    plan = make_plan(case("4n8g", timeout_s=100.0, runs=3), target, Path("/runs/run2"))
    assert "--node-rank=2" in plan.argv
    assert "--rdzv-endpoint=10.11.0.2:29500" in plan.argv
    assert "--rdzv-id=tsm-torch-fp32-bs16-4n8g-run2" in plan.argv
    assert "--records=/nfs/c/run2" in plan.argv
    assert (plan.records, plan.workdir) == ("/nfs/c/run2", "/runs/run2")
    # Node 0 may measure one device three times before it comes.
    assert "--rdzv-conf=timeout=400" in plan.argv
    assert plan.timeout_s == 500


def test_a_launcher_of_one_node_has_no_node_part():
    target = replace(TARGET, node_part=NodePart(node_rank=0, master_addr="a", master_port=1))
    with pytest.raises(UsageError, match="launcher 'local' starts all nodes from the first"):
        make_plan(case("1n1c"), target, Path("/runs/r1"))


def test_behind_a_prefix_the_environment_travels_in_the_command():
    target = replace(TARGET, python="python3")
    plain = make_plan(case("4n8g"), target, Path("/runs/r1"))
    target = replace(target, prefix=("docker", "run", "image"))
    plan = make_plan(case("4n8g"), target, Path("/runs/r1"))
    end = 4 + len(plain.env)
    names = [word.partition("=")[0] for word in plan.argv[4:end]]
    assert plan.argv[:4] == ("docker", "run", "image", "env")
    assert names == sorted(plain.env)
    assert plan.argv[end : end + 3] == ("python3", "-m", "torch.distributed.run")
    assert plan.argv[end + 3 :] == plain.argv[1:]
    assert plan.env == {"DLPERF_RUN": "/runs/r1"}


def test_compile_caches_are_those_of_the_arm_unless_the_user_set_them(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    plans = [make_plan(case("1n1c"), TARGET, Path(f"/runs/a/run{n}")) for n in (1, 2)]
    plans.append(make_plan(case("1n1c"), TARGET, Path("/runs/b/run1")))
    assert [plan.env["TORCHINDUCTOR_CACHE_DIR"] for plan in plans] == [
        "/runs/a/compile-caches/inductor",
        "/runs/a/compile-caches/inductor",
        "/runs/b/compile-caches/inductor",
    ]
    assert all("TRITON_CACHE_DIR" not in plan.env for plan in plans)
    paddle = make_plan(case("1n8g", framework="paddle"), TARGET, Path("/runs/a/run1"))
    assert "TORCHINDUCTOR_CACHE_DIR" not in paddle.env


@pytest.mark.parametrize("metric", ["compile_seconds", "time_to_first_step"])
def test_every_run_compiles_where_the_time_of_compiling_is_gated(
    monkeypatch: pytest.MonkeyPatch, metric: str
):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    gated = replace(case("1n1c"), metrics=(Gate(name=metric),))
    folders = {
        make_plan(gated, TARGET, Path(f"/runs/a/run{n}")).env["TORCHINDUCTOR_CACHE_DIR"]
        for n in (1, 2)
    }
    assert folders == {f"/runs/a/run{n}/compile-caches/inductor" for n in (1, 2)}
    program = replace(gated, workload="", command=("train",), framework="none")
    plan = make_plan(program, TARGET, Path("/runs/a/run1"))
    assert plan.env["TORCHINDUCTOR_CACHE_DIR"] == "/runs/a/run1/compile-caches/inductor"
    other = replace(case("1n1c"), metrics=(Gate(name="graph_breaks"), Gate(name="own")))
    plan = make_plan(other, TARGET, Path("/runs/a/run1"))
    assert plan.env["TORCHINDUCTOR_CACHE_DIR"] == "/runs/a/compile-caches/inductor"


def test_paddle_ranks_start_under_its_launcher():
    plan = make_plan(case("1n8g", framework="paddle"), TARGET, Path("/runs/r1"))
    assert plan.argv[:9] == (
        "/env/bin/python",
        "-m",
        "paddle.distributed.launch",
        "--nproc_per_node=8",
        "--log_level=CRITICAL",
        "--max_restart=0",
        "--log_dir=/runs/r1/paddle-logs",
        "/env/bin/python",
        "-m",
    )
    assert plan.private_logs == "/runs/r1/paddle-logs"


@pytest.mark.parametrize("visible", ["4,5", "GPU-5a0b,GPU-77c1", "4, 5"])
def test_paddle_on_the_gpus_that_the_user_chose(monkeypatch: pytest.MonkeyPatch, visible: str):
    """Its launcher looks for each value of ``--devices`` among the entries."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    plan = make_plan(case("1n2g", framework="paddle"), TARGET, Path("/runs/r1"))
    assert "--nproc_per_node=2" in plan.argv
    assert not any(argument.startswith("--devices") for argument in plan.argv)
    assert "CUDA_VISIBLE_DEVICES" not in plan.env


def test_paddle_on_cpus_names_no_devices():
    plan = make_plan(case("1n2c", framework="paddle"), TARGET, Path("/runs/r1"))
    assert "--nproc_per_node=2" in plan.argv
    assert not any(argument.startswith("--devices") for argument in plan.argv)
    assert "CUDA_VISIBLE_DEVICES" not in plan.env


def test_paddle_on_several_nodes_names_a_master():
    argv = make_plan(case("4n8g", framework="paddle"), TARGET, Path("/runs/r1")).argv
    assert argv[3:6] == (
        "--master=${MASTER_ADDR}:${MASTER_PORT}",
        "--nnodes=4",
        "--rank=${NODE_RANK}",
    )


def test_the_place_is_read_from_the_launchers_own_variables(monkeypatch: pytest.MonkeyPatch):
    for name, value in {
        "RANK": "7", "PADDLE_TRAINER_ID": "1", "PADDLE_RANK_IN_NODE": "1",
        "PADDLE_TRAINERS_NUM": "2",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    argv = make_plan(case("1n2c", framework="paddle"), TARGET, Path("/runs/r1")).argv
    read = arguments.parse(list(argv[argv.index("pytest_dlperf.worker") + 1 :]))
    assert (read.rank, read.local_rank, read.launched_world_size) == (1, 1, 2)


def worker_reads(argv: tuple[str, ...]) -> arguments.Arguments:
    return arguments.parse(list(argv[argv.index("pytest_dlperf.worker") + 1 :]))


@pytest.mark.parametrize(
    ("launcher", "program", "words", "variables"),
    [
        ("auto", "horovodrun", ("--gloo", "--num-proc=2", "--hosts=localhost:2"), "HOROVOD_{}"),
        ("mpirun", "mpirun", ("-np", "--host", "localhost:2"), "OMPI_COMM_WORLD_{}"),
        ("tf-multiworker", "python", ("pytest_dlperf.worker.tf_multiworker",), "{}"),
    ],
)
def test_ranks_of_tensorflow_find_their_place(
    monkeypatch: pytest.MonkeyPatch, launcher: str, program: str, words: tuple[str], variables: str
):
    size = "WORLD_SIZE" if variables == "{}" else variables.format("SIZE")
    for name, value in {"RANK": "7", "LOCAL_RANK": "7", "WORLD_SIZE": "64"}.items():
        monkeypatch.setenv(name, value)  # of some outer launcher
    places = {variables.format("RANK"): "1", variables.format("LOCAL_RANK"): "0", size: "2"}
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    plan = make_plan(case("1n2c", framework="tensorflow", launcher=launcher), TARGET, Path("/r"))
    assert Path(plan.argv[0]).name == program
    assert set(words) <= set(plan.argv)
    read = worker_reads(plan.argv)
    assert (read.rank, read.local_rank, read.launched_world_size) == (1, 0, 2)


def test_several_nodes_of_tensorflow_name_their_hosts():
    declared = {"framework": "tensorflow", "precision": "amp"}
    horovod = make_plan(case("4n8g", **declared), TARGET, Path("/r")).argv
    assert {"--num-proc=32", "--hosts=${HOSTS}"} <= set(horovod)
    mpi = make_plan(case("4n8g", **declared, launcher="mpirun"), TARGET, Path("/r")).argv
    assert mpi[mpi.index("-np") + 1] == "32"
    assert mpi[mpi.index("--host") + 1] == "${HOSTS}"
    assert "PYTHONPATH" in mpi
    with pytest.raises(UsageError, match="starts one node"):
        make_plan(case("4n8g", **declared, launcher="tf-multiworker"), TARGET, Path("/r"))


def test_processes_of_jax_meet_and_drive_their_devices():
    def argv(layout: str, devices: int = 1, **keys: object) -> tuple[str, ...]:
        declared = case(layout, framework="jax", devices_per_process=devices, **keys)
        return make_plan(declared, TARGET, Path("/r")).argv

    own = ("/env/bin/python", "-m", "pytest_dlperf.worker.jax_processes")
    assert argv("1n8g")[:5] == (*own, "--processes=8", "--")
    assert argv("1n8g", 4)[:6] == (*own, "--processes=2", "--devices=4", "--")
    assert worker_reads(argv("1n8g", 4)).devices_per_process == 4
    # One process of all devices needs nobody to start it
    assert argv("1n8g", 8)[2] == "pytest_dlperf.worker"
    assert argv("2n8g", 8)[3:9] == (
        "--processes=1", "--devices=8", "--nodes=2", "--node-rank=${NODE_RANK}",
        "--coordinator=${MASTER_ADDR}:${MASTER_PORT}", "--",
    )  # fmt: skip
    mpi = make_plan(case("2n8g", framework="jax", launcher="mpirun"), TARGET, Path("/r"))
    assert mpi.argv[mpi.argv.index("JAX_COORDINATOR_ADDRESS") - 1] == "-x"
    assert mpi.env["JAX_COORDINATOR_ADDRESS"] == "${MASTER_ADDR}:${MASTER_PORT}"
    assert "JAX_COORDINATOR_BIND_ADDRESS" not in mpi.env
    assert "pytest_dlperf.worker.from_mpi" not in mpi.argv
    one = make_plan(case("1n8g", framework="jax", launcher="mpirun"), TARGET, Path("/r")).env
    assert one["JAX_COORDINATOR_BIND_ADDRESS"] == one["JAX_COORDINATOR_ADDRESS"]
    assert one["JAX_COORDINATOR_ADDRESS"].startswith("127.0.0.1:")


def test_a_program_of_jax_has_the_devices_of_its_layout():
    program = case("1n2c", framework="jax", devices_per_process=2, command=["python", "x.py"])
    assert make_plan(program, TARGET, Path("/r")).env["JAX_NUM_CPU_DEVICES"] == "2"


def test_the_worker_reads_what_the_launcher_writes(monkeypatch: pytest.MonkeyPatch):
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    declared = case("1n2c", options={"shift_div": 8, "place": "block res"}, loss="finite")
    read = worker_reads(make_plan(declared, TARGET, Path("/runs/r1")).argv)
    assert (read.workload, read.world_size, read.rank) == ("m:build", 2, 1)
    assert read.options == {"shift_div": 8, "place": "block res"}
    assert (read.iterations, read.warmup, read.loss) == (150, 50, "finite")
    assert read.folder == Path("/runs/r1")


def test_launchers_that_do_not_fit():
    with pytest.raises(UsageError, match="starts one rank"):
        make_plan(case("1n2c", launcher="local"), TARGET, Path("/r"))
    with pytest.raises(
        UnknownNameError, match=r"unknown launcher 'torchrn'; known: .*local, .*torchrun"
    ):
        make_plan(case("1n2c", launcher="torchrn"), TARGET, Path("/r"))


def test_collectives_give_up_before_the_case_does():
    assert collective_timeout_s(case("1n2c", timeout_s=20.0)) == 10
    assert collective_timeout_s(case("1n2c")) == 300


PART = NodePart(node_rank=1, master_addr="10.0.0.1", master_port=29500)


def test_the_place_of_a_node_is_filled_in():
    argv = ("launch", "--rank=${NODE_RANK}", "--master=${MASTER_ADDR}:${MASTER_PORT}", "x")
    assert fill_in(argv, PART, what="l") == ("launch", "--rank=1", "--master=10.0.0.1:29500", "x")


def test_a_launcher_that_starts_all_nodes_has_no_node_part():
    with pytest.raises(UsageError, match="c: launcher 'mpirun' starts all nodes"):
        fill_in(("mpirun", "--host", "${HOSTS}"), PART, what="c: launcher 'mpirun'")


ARM_TARGET = Target(
    python="python3",
    python_path=("/home/worker", "/r/perf", "/r", "/elsewhere"),
    threads_per_rank=1,
    folder="/r/perf",
)
[CASE] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")
[PROGRAM] = expand(suite="net", command=["python", "t.py"], batch_size_per_device=1, layout="1n1c")


def test_a_tree_takes_the_place_of_the_repository(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "/r/src:r/lib:/other:/r/.venv/lib/site-packages")
    arm = ReadyArm(name="v1", kind="ref", commit="c", tree=Tree(head="/r", arm="/t"))
    target = apply_arm(
        ARM_TARGET, arm, reported=Reported(trees=("/r", "/t"), modules_file="/w/modules")
    )
    plan = make_plan(PROGRAM, target, Path("/w"))
    assert plan.env["PYTHONPATH"].split(":") == [
        "/home/worker", "/t/perf", "/t", "/elsewhere",
        "/t/src", "/t/lib", "/other", "/r/.venv/lib/site-packages",
    ]  # fmt: skip
    assert plan.cwd == "/t/perf"
    assert plan.env["DLPERF_TREES"] == "/r:/t"
    assert plan.env["DLPERF_MODULES"] == "/w/modules"


def test_relative_entries_are_those_of_where_the_session_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"src:tests/x::{tmp_path}/lib:..")
    tree = Tree(head=str(tmp_path.resolve()), arm="/t")
    ref = apply_arm(ARM_TARGET, ReadyArm(name="v1", kind="ref", tree=tree), reported=Reported())
    here = apply_arm(ARM_TARGET, ReadyArm(name="here", kind="here"), reported=Reported())
    inherited = {
        name: make_plan(CASE, target, Path("/w")).env["PYTHONPATH"].split(":")[4:]
        for name, target in {"plain": ARM_TARGET, "here": here, "ref": ref}.items()
    }
    top = [f"{tmp_path}/{name}" for name in ("src", "tests/x", "lib")]
    assert inherited["plain"] == inherited["here"] == [*top, str(tmp_path.parent)]
    assert inherited["ref"] == ["/t/src", "/t/tests/x", "/t/lib", str(tmp_path.parent.resolve())]


def test_packages_come_right_after_the_worker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "relative")
    arm = ReadyArm(name="a==1", kind="requirement", overlay="/o")
    plan = make_plan(CASE, apply_arm(ARM_TARGET, arm, reported=Reported()), Path("/w"))
    assert plan.env["PYTHONPATH"] == "/home/worker:/o:/r/perf:/r:/elsewhere:/relative"
    assert not {"DLPERF_TREES", "DLPERF_MODULES"}.intersection(plan.env)


@pytest.mark.parametrize(
    ("variables", "threads"),
    [({}, 0), ({"OMP_NUM_THREADS": "4"}, 4), ({"OMP_NUM_THREADS": " 4,2"}, 4)]
    + [({"OMP_NUM_THREADS": text}, 0) for text in ("", "0", "all", "-1", "1.5")],
)
def test_the_environment_says_the_threads_of_a_rank(variables: dict[str, str], threads: int):
    assert asked_threads(variables) == threads


def test_settings_reach_the_ranks_and_set_their_threads():
    arm = ReadyArm(name="s", kind="settings", variables={"OMP_NUM_THREADS": "3", "A": "b"})
    plan = make_plan(CASE, apply_arm(ARM_TARGET, arm, reported=Reported()), Path("/w"))
    assert (plan.env["OMP_NUM_THREADS"], plan.env["A"]) == ("3", "b")
    assert "--threads-per-rank=3" in plan.argv


def test_a_torch_that_is_only_laid_over_is_launched_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    [case] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n2c")
    base = replace(ARM_TARGET, python="/none/python3")
    arm = ReadyArm(name="torch==9", kind="requirement", overlay="/o")
    plan = make_plan(case, apply_arm(base, arm, reported=Reported()), Path("/w"))
    assert plan.argv[:3] == ("/none/python3", "-m", "torch.distributed.run")
    assert make_plan(case, base, Path("/w")).argv[0] == "torchrun"
