"""Memory and disks that run out; limits of a process are in test_programs.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.scene import Scene


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A group of processes with 64 MiB, which any process may join."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    is_v1 = (v1 / "cgroup.procs").exists()
    folder = (v1 if is_v1 else v2) / f"dlperf-test-{os.getpid()}"
    limit = folder / ("memory.limit_in_bytes" if is_v1 else "memory.max")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        limit.write_text(str(64 * 2**20), encoding="ascii")
        # A host with swap would let the program fill that first.
        swap = folder / ("memory.memsw.limit_in_bytes" if is_v1 else "memory.swap.max")
        if swap.exists():
            swap.write_text(str(64 * 2**20) if is_v1 else "0", encoding="ascii")
        yield folder
    except OSError as error:
        pytest.skip(f"no limit of memory can be set here: {error}")
    finally:
        folder.rmdir()


def test_killed_for_memory(scene: Scene, small_cgroup: Path):
    if "oom_kill " not in Path("/proc/vmstat").read_text(encoding="ascii"):
        pytest.skip("this kernel does not count whom it kills for memory")
    scene.environment["FAULT_CGROUP"] = str(small_cgroup)
    scene.program("faulty", "is-killed-for-memory")
    scene.fault("the kernel kills a rank for memory", says="the host being out of memory")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_the_disk_of_the_runs_is_full(scene: Scene, small_disk: Path):
    scene.program("before")
    scene.program("faulty", "fills-the-disk")
    result = scene.run(f"--dlperf-workdir={small_disk}")
    verdicts = {name: o["judgement"]["verdict"] for name, o in result.outcomes.items()}
    # Nothing makes room: what comes after it fails for the same reason, and says so.
    scene.check_measured(result.outcomes["before"])
    assert (verdicts["faulty"], verdicts["fine"]) == ("error", "error")
    for name in ("faulty", "fine"):
        reason = result.outcomes[name]["judgement"]["reason"]
        assert "No space left on device" in reason or "the disk is full" in reason
        assert str(small_disk) in reason
    noted = next(small_disk.glob("*/faulty*/fault-at"))
    seen = result.outcomes["faulty"]["judgement"]["reason"].partition("\n")[0]
    told = (scene.path / "told").stat().st_mtime
    scene.row("the disk of the runs is full", seen, "error", told - noted.stat().st_mtime)


def test_the_disk_of_the_results_is_full(scene: Scene, small_disk: Path):
    (small_disk / "taken").write_bytes(bytes(2 * 2**20 - 4096))
    scene.program("faulty")
    result = scene.run(f"--dlperf-json={small_disk / 'results.json'}")
    assert result.status not in {0, 1}
    said = next(line for line in result.output.splitlines() if "results NOT written" in line)
    assert "No space left on device" in said
    # What is there is whole, and says that the case had begun.
    assert sorted(path.name for path in small_disk.iterdir()) == ["results.json", "taken"]
    [begun] = json.loads((small_disk / "results.json").read_text("utf-8"))["outcomes"]
    assert (begun["judgement"]["verdict"], begun["interrupted"]) == ("error", True)
    scene.row("the disk of the results file is full", said, "exit code 3", 0.0)
