"""What a freezer must freeze, by a cgroup and by signals, and what is left when it is killed."""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_dlperf.launch.process.tree import children
from pytest_dlperf.launch.turns.cgroup import Cgroup, folder_of, remove_left_cgroups
from pytest_dlperf.launch.turns.freezer import Freezer
from tests.helpers.frozen_run import (
    HOME,
    FrozenRun,
    cgroups_of_runs,
    has_cgroups,
    left_cgroups,
    letter,
    wait_until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and cgroups are Linux's")
#: Programs of ``frozen_programs.py``, with how many processes of each count at a time.
PROGRAMS = {
    "counts": 1,
    "forks": 2,
    "goes_from_one_to_the_next": 1,
    "ignores_and_blocks_signals": 1,
    "has_a_session_of_its_own": 2,
    "leaves_a_daemon": 2,
    "goes_on_in_a_thread": 1,
    "waits_in_the_kernel": 1,
    "is_traced": 1,
    "is_many": 100,
}
NOBODY = 65534


BY = [
    "signals",
    pytest.param(
        "cgroup", marks=pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
    ),
]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_stands_still_and_goes_on(tmp_path: Path, program: str, by: str):
    with FrozenRun(tmp_path, program, by) as run:
        run.wait_until_it_counts(PROGRAMS[program])
        for _ in range(3):
            assert run.order("freeze") == ""
            assert run.stands_still()
            run.order("thaw")
            run.wait_until_it_counts(PROGRAMS[program])
        run.order("close")
        run.wait_until_it_counts(PROGRAMS[program])


def test_what_has_ended_is_not_looked_at_again(tmp_path: Path):
    with FrozenRun(tmp_path, "goes_from_one_to_the_next", "signals") as run:
        wait_until(lambda: len(run.counts()) >= 20)
        assert run.order("freeze") == ""
        ended = [pid for pid in children(run.holder.pid) if letter(pid) in "ZX"]
        assert run.launcher in ended  # its exit code is asked for by who has started it
        assert len(ended) < 10  # the last ones may end while they are told to stop


def test_a_child_that_the_kernel_has_reaped_is_no_error(monkeypatch: pytest.MonkeyPatch):
    freezer = Freezer("/nowhere", None)
    monkeypatch.setattr(freezer, "_outside", list)
    freezer.started(os.getpid())
    # As where SIGCHLD is ignored, and it ends between the two: above the pids of Linux
    monkeypatch.setattr("pytest_dlperf.launch.turns.freezer.children", lambda pid: [2**22])
    assert freezer.freeze() == ""
    freezer.close()


def test_a_run_that_begins_processes_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pytest_dlperf.launch.turns.freezer._FREEZES_S", 0.01)
    freezer = Freezer("/nowhere", None)
    pids = itertools.count(2**22)  # above those of Linux
    monkeypatch.setattr(freezer, "_outside", lambda: [next(pids)])
    assert freezer.freeze() == "its processes begin others faster than these are stopped"
    freezer.close()


@pytest.mark.parametrize("by", BY)
def test_what_has_stopped_itself_stays_stopped(tmp_path: Path, by: str):
    with FrozenRun(tmp_path, "stops_itself", by) as run:
        run.wait_until_it_counts()
        path = tmp_path / "stopped"
        wait_until(lambda: path.exists() and letter(int(path.read_text() or 0)) == "T")
        assert run.order("freeze") == ""
        run.order("thaw")
        run.wait_until_it_counts()
        assert letter(int(path.read_text())) == "T"
        assert not (tmp_path / "went-on").exists()
        os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("guard", ["lives", "is killed before", "is killed while frozen"])
def test_a_killed_holder_leaves_nothing(tmp_path: Path, by: str, guard: str):
    with FrozenRun(tmp_path, "has_a_session_of_its_own", by) as run:
        run.wait_until_it_counts(2)
        if guard == "is killed before":
            os.kill(run.guard, signal.SIGKILL)
            wait_until(lambda: letter(run.guard) in "ZX")
        run.order("freeze")
        if guard == "is killed while frozen":
            os.kill(run.guard, signal.SIGKILL)
            wait_until(lambda: letter(run.guard) in "ZX")
            run.order("freeze")  # as each look does, it starts another
        run.holder.kill()
        wait_until(lambda: not run.pids())
    wait_until(lambda: not left_cgroups())


@pytest.mark.parametrize("by", BY)
def test_a_holder_that_is_killed_while_nothing_is_frozen_leaves_nothing(tmp_path: Path, by: str):
    with FrozenRun(tmp_path, "has_a_session_of_its_own", by) as run:
        run.wait_until_it_counts(2)
        run.order("freeze")
        run.order("thaw")
        run.holder.kill()
        wait_until(lambda: not run.pids())
    wait_until(lambda: not left_cgroups())


@pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
def test_a_lock_that_somebody_keeps_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    own = Cgroup.make()
    assert own is not None
    parent = own._folder.parent
    own.remove()
    monkeypatch.setattr("pytest_dlperf.launch.turns.cgroup._LOCK_S", 0.01)
    with (parent / "cgroup.procs").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert Cgroup.make() is None
        remove_left_cgroups()


@pytest.mark.parametrize("by", BY)
def test_a_stopped_guard_delays_nobody(tmp_path: Path, by: str):
    with FrozenRun(tmp_path, "counts", by) as run:
        run.wait_until_it_counts()
        os.kill(run.guard, signal.SIGSTOP)
        for _ in range(3):
            run.order("freeze")
            run.order("thaw")
        os.kill(run.guard, signal.SIGSTOP)
        run.order("close")
        run.wait_until_it_counts()
        assert letter(run.guard) == "X"


@pytest.mark.parametrize("by", BY)
def test_what_is_killed_while_it_is_frozen_ends_at_once(tmp_path: Path, by: str):
    with FrozenRun(tmp_path, "has_a_session_of_its_own", by) as run:
        run.wait_until_it_counts(2)
        run.order("freeze")
        killed = max(run.pids())
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: letter(killed) in "ZX")
        assert run.order("freeze") == ""
        run.order("thaw")
        run.wait_until_it_counts()


def test_another_users_process_is_named_where_signals_cannot_reach_it():
    if os.geteuid():
        pytest.skip("takes root: it starts a process of another user")
    holder = f"""
    import subprocess, sys
    sys.path.insert(0, {str(HOME)!r})
    from pytest_dlperf.launch.turns.freezer import Freezer
    quiet = {{"stdout": subprocess.DEVNULL}}
    child = subprocess.Popen(["sleep", "600"], user={NOBODY}, **quiet)
    own = subprocess.Popen(["sleep", "600"], **quiet)
    freezer = Freezer("/nowhere", None)
    print(freezer.freeze())
    print(open(f"/proc/{{own.pid}}/stat").read().split()[2])
    freezer.close()
    own.kill()
    print(child.pid)
    """
    library = ctypes.CDLL(None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(holder)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        # PR_CAPBSET_DROP of CAP_KILL: it may signal its own user's processes alone, as others may
        preexec_fn=lambda: library.prctl(24, 5, 0, 0, 0),
    )
    moving, state, pid = done.stdout.splitlines()
    os.kill(int(pid), signal.SIGKILL)
    assert moving == f"pid {pid} (sleep) belongs to another user"
    assert state == "T"  # the others are stopped all the same


def test_what_a_debugger_lets_go_on_is_named(tmp_path: Path):
    library = ctypes.CDLL(None, use_errno=True)
    seize, cont = 0x4206, 7  # ptrace(2)
    with FrozenRun(tmp_path, "counts", "signals") as run:
        run.wait_until_it_counts()
        [pid] = run.pids()
        tracer = os.fork()
        if tracer == 0:
            library.ptrace(seize, pid, None, None)
            (tmp_path / "traces").touch()
            while True:
                os.waitpid(pid, 0x40000000)  # __WALL
                library.ptrace(cont, pid, None, None)
        try:
            wait_until((tmp_path / "traces").exists)
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            # Where the debugger itself has to wait for a CPU, a later look sees it
            wait_until(lambda: run.order("freeze") == f"pid {pid} ({name}) does not stop")
        finally:
            os.kill(tracer, signal.SIGKILL)
            os.waitpid(tracer, 0)


def test_a_guard_kills_no_other_process_that_has_the_pid_by_now():
    script = f"""
    import os, subprocess, sys
    sys.path.insert(0, {str(HOME)!r})
    from pytest_dlperf.launch.turns.guard import Guard
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    other = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    start = open(f"/proc/{{other.pid}}/stat").read().split()[21]
    Guard(None).watch({{child.pid: "1", other.pid: start}})
    print(child.pid, other.pid, flush=True)
    os._exit(0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    child, other = map(int, done.stdout.split())
    wait_until(lambda: letter(other) in "ZX")
    assert letter(child) == "S"
    os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
def test_a_cgroup_that_a_dead_session_left_is_removed_and_one_of_a_living_is_not():
    kept, left = Cgroup.make(), Cgroup.make()
    assert kept is not None
    assert left is not None
    with (
        subprocess.Popen(["sleep", "600"]) as process,
        subprocess.Popen(["sleep", "600"]) as other,
    ):
        left.add(process.pid)
        kept.add(other.pid)
        assert left.freeze()
        os.close(left.lock)  # as the end of its process does
        remove_left_cgroups()
        assert process.wait() == -signal.SIGKILL
        assert other.poll() is None
        assert kept.processes() == {other.pid}
        kept.remove()
        assert other.wait() == -signal.SIGKILL
    assert not any(cgroup.lock >= 0 for cgroup in (kept,))
    assert not set(cgroups_of_runs()) & {kept._folder, left._folder}


@pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
@pytest.mark.parametrize("ends", ["by its holder", "as left"])
def test_a_process_whose_first_thread_has_ended_ends_with_its_cgroup(tmp_path: Path, ends: str):
    with FrozenRun(tmp_path, "goes_on_in_a_thread", "cgroup") as run:
        run.wait_until_it_counts()
        [name] = run.counts()
        of_it = Path(f"/proc/{name.partition('-')[2]}/cgroup").read_text().splitlines()[-1]
        [folder] = (folder for folder in cgroups_of_runs() if folder.name == Path(of_it).name)
        run.order("freeze")
        if ends == "by its holder":
            run.order("remove")
            wait_until(lambda: not folder.exists())
        else:
            os.kill(run.guard, signal.SIGKILL)
            run.holder.kill()
            run.holder.wait()
            # One of the next runs removes it: the guard may have its lock for a moment yet
            wait_until(lambda: remove_left_cgroups() or not folder.exists())


@pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
def test_runs_that_start_at_once_do_not_remove_the_cgroups_of_each_other():
    script = f"""
    import sys
    sys.path.insert(0, {str(HOME)!r})
    from pytest_dlperf.launch.turns.cgroup import Cgroup
    for number in range(200):
        cgroup = Cgroup.make()
        assert cgroup is not None, number
        cgroup.remove()
    """
    runs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)]) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]


def test_a_guard_has_no_descriptor_of_its_parent():
    script = f"""
    import os, resource, sys
    sys.path.insert(0, {str(HOME)!r})
    from pytest_dlperf.launch.turns.guard import Guard
    os.dup2(0, 200)  # above the limit that is set then
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    guard = Guard(None)
    guard.watch({{}})
    while len(names := os.listdir(f"/proc/{{guard.pid}}/fd")) > 1:
        pass
    print(os.readlink(f"/proc/{{guard.pid}}/fd/{{names[0]}}").partition(":")[0])
    guard.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "pipe\n"


def test_a_process_that_has_the_pid_of_one_of_the_run_by_now_goes_on():
    script = f"""
    import sys
    sys.path.insert(0, {str(HOME)!r})
    from pytest_dlperf.launch.turns.freezer import Freezer
    freezer = Freezer("/nowhere", None)
    freezer._named[int(sys.argv[1])] = "1"
    assert freezer.freeze() == ""
    print(open(f"/proc/{{sys.argv[1]}}/stat").read().split()[2])
    freezer.close()
    """
    with subprocess.Popen(["sleep", "600"]) as other:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(other.pid)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        other.kill()
    assert done.stdout == "S\n"


@pytest.mark.skipif(not has_cgroups(), reason="no cgroup can be made here")
def test_cgroups_of_a_program_below_its_own_are_frozen_and_removed():
    cgroup = Cgroup.make()
    assert cgroup is not None
    below = cgroup._folder / "of_the_program"
    below.mkdir()
    with subprocess.Popen(["sleep", "600"]) as process:
        (below / "cgroup.procs").write_text(str(process.pid))
        assert cgroup.processes() == {process.pid}
        assert cgroup.freeze()
        cgroup.remove()
        assert process.wait() == -signal.SIGKILL
    assert not cgroup._folder.exists()


V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
HYBRID = (
    "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
IN_CONTAINER = "99 98 0:26 /docker/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (V2, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"),
        (V2, "0::/\n", "/sys/fs/cgroup"),
        (HYBRID, "4:memory:/m\n0::/u\n", "/sys/fs/cgroup/unified/u"),
        (HYBRID, "4:memory:/m\n", None),
        (HYBRID.splitlines()[0], "4:memory:/m\n0::/u\n", None),
        (IN_CONTAINER, "0::/docker/c1/job\n", "/sys/fs/cgroup/job"),
        (IN_CONTAINER, "0::/docker/c2\n", None),
        (V2, "0::/../of_the_host\n", None),
        (V2.replace("/sys/fs/cgroup", r"/my\040groups"), "0::/a\n", "/my groups/a"),
        ("", "", None),
    ],
)
def test_the_own_cgroup_is_found(mounts: str, own: str, expected: str | None):
    folder = folder_of(mounts, own)
    assert folder == (Path(expected) if expected else None)
