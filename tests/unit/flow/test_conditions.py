from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.arm import ReadyArm, Reported, Tree
from pytest_dlperf.core.place import Place
from pytest_dlperf.flow.hosts import Hosts
from pytest_dlperf.launch.base import Target
from pytest_dlperf.measure.devices import Devices


@pytest.mark.parametrize(
    ("layout", "timing", "told"),
    [
        ("1n1g", "host clock", {"timing": "host clock"}),
        ("1n1g", "device events", {}),
        ("1n1c", "host clock", {}),
    ],
)
def test_gpu_steps_that_wait_for_each_other_are_another_condition(
    layout: str, timing: str, told: dict[str, str]
):
    [case] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout=layout)
    target = Target(python="python3", python_path=(), threads_per_rank=1)
    found = hosts().conditions(case, {"framework": {"timing": timing}}, target)
    assert found.options == told


@pytest.mark.parametrize(("each", "told"), [(8 / 3, {}), (16 / 3, {"work": 16})])
def test_the_work_of_ranks_that_share_a_batch_is_that_of_all_of_them(
    each: float, told: dict[str, int]
):
    keys = {"suite": "net", "workload": "m:build", "batch_size_per_device": 8}
    [case] = expand(**keys, layout="1n6c", parallel="tp3")
    target = Target(python="python3", python_path=(), threads_per_rank=1)
    assert hosts().conditions(case, {"work": each}, target).options == told


@pytest.mark.parametrize(("each", "work"), [(16.0, {}), (32.0, {"work": 16})])
def test_the_work_of_a_rank_that_drives_two_devices_is_that_of_each(
    each: float, work: dict[str, int]
):
    keys = {"suite": "net", "workload": "m:build", "batch_size_per_device": 8}
    [case] = expand(**keys, framework="jax", layout="1n2c", devices_per_process=2)
    target = Target(python="python3", python_path=(), threads_per_rank=1)
    found = hosts().conditions(case, {"work": each}, target)
    assert found.options == {"devices_per_process": 2, **work}


def test_each_arm_imports_from_the_same_folders_of_its_own_tree(tmp_path: Path):
    own, other = (tmp_path / name for name in ("own", "other"))
    here = replace(hosts(), rootdir=own, import_folders=(str(own / "src"), "/elsewhere"))
    [case] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")
    _, *found = here.target(case, str(own / "perf")).python_path
    expected = [str(own / "perf"), str(own / "src"), "/elsewhere", str(own)]
    assert found[:4] == expected
    arm = ReadyArm(name="ref", kind="ref", tree=Tree(head=str(own), arm=str(other)))
    copied = here.with_arm(arm, tmp_path, Reported())
    _, *found = copied.target(case, str(own / "perf")).python_path
    assert found[:4] == [folder.replace(str(own), str(other)) for folder in expected]


def hosts() -> Hosts:
    devices = Devices(
        gpus=(), visible_gpus=0, gpu_problem="", cores=2, visible_cores=2, cpu_name="X"
    )
    return Hosts(
        devices=devices, folder=Path(), rootdir=Path(), shared=Path(),
        place=Place(python="python3"), pinned_machine_class="any",
    )  # fmt: skip
