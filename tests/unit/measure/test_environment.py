"""What is recorded of the machine and the software of a run."""

from __future__ import annotations

import pytest

from pytest_dlperf.measure.devices import Devices, Gpu
from pytest_dlperf.measure.environment import collect

V100 = Gpu(
    name="Tesla V100-SXM2-32GB", memory_mib=32510, driver="450.80.02", compute_capability=7.0
)
FACTS = {
    "framework": {
        "framework": "torch",
        "framework_version": "1.7.0",
        "cuda": "11.0",
        "cudnn": 8004,
        "nccl": "2.7.8",
        "backend": "nccl",
    },
    "start": {"node": "node1", "python": "3.10.1"},
}


def devices(*gpus: Gpu) -> Devices:
    return Devices(
        gpus=gpus,
        visible_gpus=len(gpus),
        gpu_problem="",
        cores=48,
        visible_cores=48,
        cpu_name="Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz",
    )


def test_everything_that_the_reports_list_is_recorded(monkeypatch):
    monkeypatch.setenv("DLPERF_IMAGE", "nvcr.io/nvidia/pytorch:20.12-py3")
    found = collect(devices(*[V100] * 8), "gpu", FACTS, pinned=None)
    assert found.machine["gpu"] == "Tesla V100-SXM2-32GB * 8"
    assert found.machine["cpu"] == "Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz * 48"
    assert found.machine["memory"].endswith(" GiB")
    assert found.machine["os"]
    told = {name: found.software[name] for name in ("driver", "image", "torch", "cuda", "nccl")}
    assert told == {
        "driver": "450.80.02",
        "image": "nvcr.io/nvidia/pytorch:20.12-py3",
        "torch": "1.7.0",
        "cuda": "11.0",
        "nccl": "2.7.8",
    }


@pytest.mark.parametrize(
    ("reported", "version"),
    [(8004, "8.0.4"), (7605, "7.6.5"), (90100, "9.1.0"), ("8.0.5", "8.0.5")],
)
def test_cudnn_is_written_as_people_write_it(reported, version):
    facts = {"framework": FACTS["framework"] | {"cudnn": reported}}
    assert collect(devices(V100), "gpu", facts, pinned=None).software["cudnn"] == version


def test_what_is_not_known_is_absent(monkeypatch):
    monkeypatch.delenv("DLPERF_IMAGE", raising=False)
    found = collect(devices(), "cpu", {}, pinned=None)
    assert {"driver", "cuda", "cudnn", "nccl"}.isdisjoint(found.software)
    assert "gpu" not in found.machine
