"""Real processes: those that write at once, and those that are killed while they write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import CASE_ID, MACHINE, PLACE, baseline, session

UPDATES = 25

#: Appends sessions marked with the writer's name, once a line comes in.
WRITER = f"""
import sys
from pathlib import Path

from tests.helpers.baseline_builders import PLACE, baseline, session
from pytest_dlperf.store.baseline.store import BaselineStore

store, name = BaselineStore(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for i in range({UPDATES}):
    def add(before, mark=f"{{name}}{{i}}"):
        return baseline(*(before.sessions if before else ()), session(reason=mark, commit=mark))

    store.update(*PLACE, add)
"""

#: Replaces the file without end by one of two contents, each of one session only.
REWRITER = """
import itertools, sys
from pathlib import Path

from tests.helpers.baseline_builders import baseline, session
from pytest_dlperf.store.baseline.store import BaselineStore

store = BaselineStore(Path(sys.argv[1]))
for i in itertools.count(1):
    store.write(baseline(session(*[float(i)] * 200)))
    if i == 3:
        print("ready", flush=True)
"""

#: Stops for good between the temporary file and the rename, holding the lock.
STUCK = """
import os, sys, time
from pathlib import Path

from tests.helpers.baseline_builders import baseline, session
from pytest_dlperf.store.baseline.store import BaselineStore

def stuck(*_):
    print("ready", flush=True)
    time.sleep(600)

os.replace = stuck
BaselineStore(Path(sys.argv[1])).write(baseline(session(99.0)))
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaselineStore:
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path))
    return BaselineStore(tmp_path / "baselines")


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(
    started: list[subprocess.Popen[str]], program: str, *arguments: object, **variables: str
) -> subprocess.Popen[str]:
    """Start ``program`` and return when it is ready."""
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def folder_of(store: BaselineStore) -> Path:
    return store.root / MACHINE / "tsm"


@pytest.mark.parametrize("whose", ["one user's", "two users'"])
def test_two_processes_that_update_one_case_lose_nothing(store, started, tmp_path, whose: str):
    # A folder of locks of its own is what another user, host or container has.
    folders = {name: tmp_path / (name if whose == "two users'" else "one") for name in "ab"}
    writers = [
        start(started, WRITER, store.root, name, DLPERF_RUNTIME_DIR=str(folder))
        for name, folder in folders.items()
    ]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    marks = [s.reason for s in store.find(*PLACE).sessions]
    assert sorted(marks) == sorted(f"{name}{i}" for name in "ab" for i in range(UPDATES))
    for name in "ab":
        assert [m for m in marks if m[0] == name] == [f"{name}{i}" for i in range(UPDATES)]
    assert os.listdir(folder_of(store)) == [f"{CASE_ID}.json"]


def test_a_reader_beside_a_writer_sees_whole_files_only(store, started):
    writer = start(started, REWRITER, store.root)
    for _ in range(200):
        runs = store.find(*PLACE).sessions[0].runs
        assert len(runs) == 200
        assert len(set(runs)) == 1
    assert writer.poll() is None


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(store, started):
    for _ in range(4):
        kill(start(started, REWRITER, store.root))
        runs = store.find(*PLACE).sessions[0].runs
        assert len(runs) == 200
        assert len(set(runs)) == 1


def test_a_writer_killed_before_the_rename_leaves_the_old_file(store, started):
    store.write(baseline())
    file = folder_of(store) / f"{CASE_ID}.json"
    old = file.read_bytes()
    kill(start(started, STUCK, store.root))
    assert file.read_bytes() == old
    leftovers = [path for path in folder_of(store).iterdir() if path != file]
    assert len(leftovers) == 2  # the temporary and the lock: it was killed half-way indeed
    assert [entry.path for entry in store.all()] == [file]

    store.write(baseline(session(1.5)))  # the lock died with its holder
    assert json.loads(file.read_bytes())["sessions"][0]["runs"] == [1.5]
    assert list(folder_of(store).iterdir()) == [file]
