"""The lock beside a file: what it leaves behind, and file systems that have none."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.store import lock_beside
from pytest_dlperf.store.lock_beside import locked

HOLDER = """
import sys, time
from pathlib import Path
from pytest_dlperf.store.lock_beside import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(folder))
    return folder


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_nothing_is_left_neither_lock_nor_folder(tmp_path: Path):
    with locked(tmp_path / "a" / "b" / "x.json"):
        assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == [".x.json.lock"]
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "x.json"):
        (tmp_path / "a" / "x.json").touch()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["x.json"]


def test_a_killed_holder_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a" / "x.json"
    process = holder(path)
    monkeypatch.setattr(lock_beside, "TIMEOUT_S", 0.2)
    with pytest.raises(TimeoutError) as raised, locked(path):
        pass
    assert raised.value.filename == str(path.with_name(".x.json.lock"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with locked(path):
        pass
    assert list(path.parent.iterdir()) == []


def test_a_folder_reached_through_a_link_has_the_same_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(lock_beside, "TIMEOUT_S", 0.1)
    with (
        locked(tmp_path / "real" / "x"),
        pytest.raises(TimeoutError),
        locked(tmp_path / "link" / "x"),
    ):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / ".x.lock").symlink_to(tmp_path / "planted")
    with pytest.raises(OSError, match="symbolic link"), locked(tmp_path / "x"):
        pass
    assert not (tmp_path / "planted").exists()


def test_who_may_write_the_folder_may_hold_its_lock(tmp_path: Path):
    tmp_path.chmod(0o770)
    with locked(tmp_path / "x"):
        assert (tmp_path / ".x.lock").stat().st_mode & 0o777 == 0o660


def test_where_the_file_system_has_no_locks_the_runtime_folder_has(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
):
    flock = fcntl.flock

    def none_beside(descriptor: int, operation: int) -> None:
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(runtime)):
            raise OSError(errno.ENOSYS, "Function not implemented")
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", none_beside)
    monkeypatch.setattr(lock_beside, "TIMEOUT_S", 0.1)
    path = tmp_path / "a" / "x"
    with locked(path):
        assert list(path.parent.iterdir()) == []
        with pytest.raises(TimeoutError), locked(path):
            pass
    assert list(runtime.iterdir()) == []
