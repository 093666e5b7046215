from __future__ import annotations

from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.measure.environment import with_target

HERE = Environment(
    machine_class="c", hardware="c", node="n", machine={"os": "Host 1"},
    software={"torch": "2.9", "driver": "550", "image": "ours"},
)  # fmt: skip
PROBED = {
    "python": "3.12.1", "os": "Box 2", "image": "theirs", "framework": "torch",
    "framework_version": "2.8", "cuda": "12.1", "cudnn": None, "nccl": "2.19.3",
}  # fmt: skip


def test_what_ranks_reported_counts_before_what_a_probe_found():
    found = with_target(HERE, PROBED, prefix="docker run x")
    assert found.machine == HERE.machine
    assert found.software == {
        "torch": "2.9", "driver": "550", "python": "3.12.1", "cuda": "12.1", "nccl": "2.19.3",
        "image": "theirs", "os of the ranks": "Box 2", "prefix": "docker run x",
    }  # fmt: skip


def test_our_own_image_is_not_that_of_the_ranks():
    assert "image" not in with_target(HERE, {**PROBED, "image": None}, prefix="x").software


def test_without_a_probe_there_is_the_prefix_alone():
    assert with_target(HERE, {}, prefix="x").software == {**HERE.software, "prefix": "x"}
    assert with_target(HERE, {}, prefix="").software == HERE.software
