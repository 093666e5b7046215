"""What is said while the lease is another's, and which file counts."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.process import lease

#: Holds the lease until a line comes in.
HOLDER = """
from pytest_dlperf.launch.process.lease import host_lease
with host_lease("other"):
    print("held", flush=True)
    input()
"""
#: Ends while a child of it goes on with a copy of the lease's descriptor.
LEFT_BEHIND = """
import os, subprocess
from pytest_dlperf.launch.process.lease import host_lease
with host_lease("other") as descriptor:
    child = subprocess.Popen(
        ["sleep", "60"], pass_fds=(descriptor,), stdout=subprocess.DEVNULL
    )
    print(child.pid, flush=True)
    os._exit(0)
"""


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_one_that_holds_it_for_long_is_named_with_what_to_do(
    holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lease, "_LONG_S", 0.0)
    said: list[str] = []

    def waiting(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            holder.communicate(b"\n")

    with lease.host_lease("mine", on_wait=waiting):
        pass
    assert said[0] == f"pid {holder.pid} (other)"
    assert said[1].startswith(f"{said[0]}, for 0 min so far; if that session hangs, end it with")
    assert f"`kill {holder.pid}`" in said[1]


def test_what_a_holder_left_behind_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "_ENDED_S", 0.0)
    done = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND], stdout=subprocess.PIPE, check=True, close_fds=True
    )
    left = int(done.stdout)
    said: list[str] = []

    def waiting(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            os.kill(left, 9)

    try:
        told = lease.lease_holder()
        with lease.host_lease("mine", on_wait=waiting):
            pass
    finally:
        if len(said) < 2:
            os.kill(left, 9)
    for words in (told, said[1]):
        assert words is not None
        assert f"which has ended; what is left of its run, pid {left}, still holds" in words
        assert f"`kill -9 {left}`" in words


def test_changing_holders_are_named_once_a_minute():
    said: list[str] = []
    waiting = lease._Waiting(Path("/nowhere"), said.append)
    for number in range(5):
        waiting.go_on(lease.Holder(pid=os.getpid(), case_id=f"case{number}"))
    waiting.go_on(None)
    assert said == [f"pid {os.getpid()} (case0)"]
    waiting._said_s = time.monotonic() - 61
    waiting.go_on(lease.Holder(pid=os.getpid(), case_id="case9"))
    assert said[1:] == [f"pid {os.getpid()} (case9)"]


def test_a_file_that_was_removed_is_nobodys_lease(
    holder: subprocess.Popen[bytes], runtime_folder: Path
):
    def waiting(words: str) -> None:
        (runtime_folder / "host.lease").unlink()
        holder.communicate(b"\n")

    with lease.host_lease("mine", on_wait=waiting):
        assert lease.lease_holder() == f"pid {os.getpid()} (mine)"


@pytest.mark.parametrize("function", ["open", "pwrite"])
def test_a_full_disk_is_that_of_the_runtime_folder(
    runtime_folder: Path, monkeypatch: pytest.MonkeyPatch, function: str
):
    """A real one needs a file system of its own: the kernel's answer is planted."""
    original = getattr(os, function)

    def full(target: Any, *rest: Any) -> Any:
        if function == "open" and "host.lease" not in str(target):
            return original(target, *rest)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, full)
    with pytest.raises(CaseError) as caught, lease.host_lease("case"):
        pass
    assert str(caught.value) == (
        f"the lock {runtime_folder}/host.lease cannot be taken: No space left on device; make "
        "room there, or set DLPERF_RUNTIME_DIR to another folder"
    )


def test_the_lease_does_not_follow_a_link(runtime_folder: Path, tmp_path_factory):
    precious = tmp_path_factory.mktemp("mine") / "precious"
    precious.write_text("data")
    (runtime_folder / "host.lease").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"), lease.host_lease("case"):
        pass
    with pytest.raises(OSError, match="symbolic link"):
        lease.lease_holder()
    assert precious.read_text() == "data"
