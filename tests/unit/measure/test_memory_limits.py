from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from pytest_dlperf.cli import doctor
from pytest_dlperf.cli.doctor import MemoryLimits, size_text

DOCKER = MemoryLimits(shared_bytes=64 * 2**20, locked_bytes=64 * 2**10, locked_unlimited=False)


def test_a_container_with_dockers_own_limits():
    shared, locked = DOCKER.missing(gpus=8)
    assert "has 64 MiB: layouts of several GPUs" in shared
    assert "--shm-size=1g" in shared
    assert "limited to 64 KiB" in locked
    assert "--ulimit memlock=-1" in locked


def test_what_only_gpus_need_is_not_missed_on_cpus():
    (shared,) = DOCKER.missing(gpus=0)
    assert "GPUs" not in shared
    assert "data workers" in shared


def test_nothing_is_missing_where_the_reports_flags_were_given():
    enough = MemoryLimits(shared_bytes=2**30, locked_bytes=None, locked_unlimited=True)
    assert enough.missing(gpus=8) == []
    unknown = MemoryLimits(shared_bytes=None, locked_bytes=None, locked_unlimited=False)
    assert unknown.missing(gpus=8) == []


def test_the_limits_of_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, resource.RLIM_INFINITY))
    monkeypatch.setattr(
        doctor.os, "statvfs", lambda _: SimpleNamespace(f_frsize=4096, f_blocks=16384)
    )
    found = doctor.memory_limits()
    assert found == MemoryLimits(
        shared_bytes=64 * 2**20, locked_bytes=4096, locked_unlimited=False
    )


def test_a_system_without_the_folder(monkeypatch: pytest.MonkeyPatch):
    def missing(_: object):
        raise FileNotFoundError

    monkeypatch.setattr(doctor.os, "statvfs", missing)
    assert doctor.memory_limits().shared_bytes is None


@pytest.mark.parametrize(
    ("size", "text"), [(2**16, "64 KiB"), (3 * 2**29, "1.5 GiB"), (8 * 2**20, "8 MiB")]
)
def test_sizes_for_people(size: int, text: str):
    assert size_text(size) == text
