from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from pytest_dlperf.core.run import EndReason, LaunchPlan, RunEnd
from pytest_dlperf.launch.process import execute as execution
from pytest_dlperf.launch.process import lease, left_over, supervisor
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.process.left_over import end_left_over

#: Leaves a grandchild in a session of its own that ignores SIGTERM, then does ``THEN``.
STUBBORN = """
    import os, signal, subprocess, sys, time
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);"
         "print('up', flush=True); time.sleep(600)"],
        start_new_session=True, stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    open("pids", "w").write(f"{os.getpid()} {child.pid}")
    THEN
"""


def test_each_end_that_a_supervisor_reports_is_a_reason():
    ends = get_args(get_type_hints(supervisor.Report)["end"])
    nodes = {EndReason.NODE_GONE, EndReason.NODE_NOT_STARTED}
    assert {EndReason(end) for end in ends} == set(EndReason) - nodes


def plan(tmp_path: Path, code: str, timeout_s: float = 60.0) -> LaunchPlan:
    return LaunchPlan(
        case_id="c",
        argv=(sys.executable, "-c", textwrap.dedent(code)),
        env={"DLPERF_RUN": str(tmp_path)},
        workdir=str(tmp_path),
        timeout_s=timeout_s,
    )


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(tmp_path: Path) -> list[int]:
    return [int(word) for word in (tmp_path / "pids").read_text(encoding="ascii").split()]


def wait_for(path: Path) -> None:
    end_s = time.monotonic() + 30
    while not (path.exists() and path.read_text(encoding="ascii")):
        assert time.monotonic() < end_s, f"{path} never came"
        time.sleep(0.02)


def test_output_and_exit_code(tmp_path: Path):
    run = execute(plan(tmp_path, "print('hello'); raise SystemExit(7)"))
    assert (run.exit_code, run.end, run.timed_out) == (7, RunEnd(reason=EndReason.EXITED), False)
    assert Path(run.log).read_text(encoding="utf-8") == "hello\n"


def test_an_exit_code_is_kept_where_ends_of_children_are_ignored(tmp_path: Path):
    command = plan(tmp_path, "raise SystemExit(3)").argv
    supervised = [supervisor.__file__, "--timeout-s=60", f"--workdir={tmp_path}", "--", *command]
    started = subprocess.Popen(
        ["bash", "-c", 'trap "" CHLD; exec "$@"', "bash", sys.executable, "-I", *supervised],
        stdin=subprocess.PIPE,
    )
    assert started.wait(60) == 0
    assert started.stdin is not None
    started.stdin.close()
    assert json.loads((tmp_path / "supervisor.json").read_text("utf-8"))["exit_code"] == 3


def test_what_the_launcher_leaves_behind_is_killed(tmp_path: Path):
    run = execute(plan(tmp_path, STUBBORN.replace("THEN", "os._exit(0)")))
    assert run.exit_code == 0
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_a_launcher_that_is_killed_leaves_nothing(tmp_path: Path):
    run = execute(plan(tmp_path, STUBBORN.replace("THEN", "os.kill(os.getpid(), 9)")))
    assert run.exit_code == -9
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_timeout(tmp_path: Path):
    run = execute(plan(tmp_path, STUBBORN.replace("THEN", "time.sleep(600)"), timeout_s=2))
    assert run.timed_out
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_a_command_that_does_not_exist(tmp_path: Path):
    missing = LaunchPlan(
        case_id="c", argv=("/nowhere/torchrun",), env={}, workdir=str(tmp_path), timeout_s=5
    )
    run = execute(missing)
    assert run.exit_code is None
    assert "No such file" in run.end.message


@pytest.mark.newest
def test_an_exception_in_pytest_ends_the_run(tmp_path: Path):
    def interrupt(_folder: Path) -> None:
        if (tmp_path / "pids").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(plan(tmp_path, STUBBORN.replace("THEN", "time.sleep(600)")), on_tick=interrupt)
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_a_killed_supervisor_leaves_nothing(tmp_path: Path):
    killed: list[int] = []

    def kill_supervisor(_folder: Path) -> None:
        if (tmp_path / "pids").exists() and not killed:
            launcher = pids(tmp_path)[0]
            stat = Path(f"/proc/{launcher}/stat").read_text(encoding="ascii")
            killed.append(int(stat.rpartition(")")[2].split()[1]))
            os.kill(killed[0], signal.SIGKILL)

    run = execute(
        plan(tmp_path, STUBBORN.replace("THEN", "time.sleep(600)")), on_tick=kill_supervisor
    )
    assert run.end.reason is EndReason.SUPERVISOR_DIED
    assert killed
    assert not any(alive(pid) for pid in pids(tmp_path))


@pytest.mark.newest
def test_pytest_killed_leaves_nothing_and_frees_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path))
    script = tmp_path / "session.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            from pytest_dlperf.core.run import LaunchPlan
            from pytest_dlperf.launch.process.lease import host_lease
            from pytest_dlperf.launch.process.execute import execute
            with host_lease("the-case") as fd:
                execute(LaunchPlan(case_id="c", argv=(sys.executable, "-c", sys.argv[1]),
                        env={}, workdir=sys.argv[2], timeout_s=60), lease=fd)
        """),
        encoding="utf-8",
    )
    code = textwrap.dedent(STUBBORN.replace("THEN", "time.sleep(600)"))
    session = subprocess.Popen([sys.executable, str(script), code, str(tmp_path)])
    wait_for(tmp_path / "pids")
    assert lease.lease_holder() == f"pid {session.pid} (the-case)"
    session.kill()
    session.wait()
    # The lease must stay taken as long as anything of the run lives.
    end_s = time.monotonic() + 30
    while lease.lease_holder() is not None:
        assert time.monotonic() < end_s, "the lease was never freed"
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_the_lease_is_waited_for_and_says_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path))
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from pytest_dlperf.launch.process.lease import host_lease\n"
            "with host_lease('other'):\n print('held', flush=True)\n input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    said: list[str] = []

    def waiting(who: str) -> None:
        said.append(who)
        holder.communicate(b"\n")

    with lease.host_lease("mine", on_wait=waiting):
        assert lease.lease_holder() == f"pid {os.getpid()} (mine)"
    assert said == [f"pid {holder.pid} (other)"]
    assert lease.lease_holder() is None


def test_what_is_left_over_is_ended_and_others_are_spared(tmp_path: Path):
    mine = subprocess.Popen(["sleep", "60"], env={**os.environ, "DLPERF_RUN": str(tmp_path / "a")})
    other = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, "DLPERF_RUN": str(tmp_path / "b")}
    )
    try:
        time.sleep(0.2)
        assert end_left_over([str(tmp_path / "a")]) == [mine.pid]
        assert mine.wait() == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_process_that_may_not_be_ended_spares_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A rank's program may be another user's, as one that is setuid."""
    env = {**os.environ, "DLPERF_RUN": str(tmp_path)}
    mine, not_mine = (subprocess.Popen(["sleep", "60"], env=env) for _ in range(2))
    kill = os.kill

    def refuse(pid: int, number: int) -> None:
        if pid == not_mine.pid:
            raise PermissionError(1, "Operation not permitted")
        kill(pid, number)

    monkeypatch.setattr(left_over, "UNKILLABLE_S", 1.0)
    monkeypatch.setattr(os, "kill", refuse)
    try:
        time.sleep(0.2)
        assert end_left_over([str(tmp_path)]) == sorted([mine.pid, not_mine.pid])
        assert mine.wait() == -9
    finally:
        kill(not_mine.pid, signal.SIGKILL)
        not_mine.wait()


@pytest.mark.newest
def test_a_descendant_that_may_not_be_ended_spares_no_other():
    """In a process of its own, as all its descendants are ended."""
    code = """
        import os, signal, subprocess
        from pytest_dlperf.launch.process import supervisor
        supervisor.UNKILLABLE_S = 1.0
        first, not_mine, last = (subprocess.Popen(["sleep", "60"]) for _ in range(3))
        kill = os.kill
        def refuse(pid, number):
            if pid == not_mine.pid:
                raise PermissionError(1, "Operation not permitted")
            kill(pid, number)
        os.kill = refuse
        ended = supervisor.end_descendants(gently=False)
        kill(not_mine.pid, signal.SIGKILL)
        assert ended == {"killed": 3, "unkilled": [not_mine.pid]}, ended
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 9)"])
def test_temporary_files_of_a_launch_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    code = f"import os, tempfile\nprint(tempfile.mkdtemp(), flush=True)\n{end}"
    run = execute(plan(tmp_path, code))
    if not end:
        told = Path(run.log).read_text(encoding="utf-8").strip()
        assert Path(told).parent.parent == tmp_path / "tmp"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_which_processes_lived_at_the_end(tmp_path: Path):
    code = STUBBORN.replace("THEN", "os.kill(os.getpid(), 9)")
    run = execute(plan(tmp_path, code))
    launcher, child = pids(tmp_path)
    assert run.alive is not None
    assert child in run.alive
    assert launcher not in run.alive


def test_ranks_that_print_too_much_end_the_run(tmp_path: Path):
    # The supervisor is a program of its own: its bound is met by a file that takes no room.
    code = "import time; f = open('rank.log', 'w'); f.truncate(2**31); time.sleep(60)"
    run = execute(replace(plan(tmp_path, code), rank_logs="rank.log"))
    assert run.end.reason is EndReason.LOGS_TOO_LONG
    assert run.end.message.startswith("2048 MiB")
    assert (tmp_path / "rank.log").stat().st_size <= 64 * 2**20 + 100


STOPS_ITS_SUPERVISOR = STUBBORN.replace(
    "THEN", "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(600)"
)


@pytest.mark.newest
def test_a_supervisor_that_stays_stopped_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(execution, "_WAKE_S", 600.0)
    monkeypatch.setattr(execution, "_GIVE_UP_S", 0.5)
    with lease.host_lease("c") as descriptor:
        run = execute(plan(tmp_path, STOPS_ITS_SUPERVISOR, timeout_s=2), lease=descriptor)
    assert run.end.reason is EndReason.SUPERVISOR_STOPPED
    assert run.end.message.startswith("pid ")
    assert not run.timed_out
    assert run.exit_code is None
    assert run.alive is not None
    assert run.alive >= set(pids(tmp_path))
    assert not any(alive(pid) for pid in pids(tmp_path))
    assert lease.lease_holder() is None


@pytest.mark.newest
def test_a_supervisor_that_was_stopped_is_woken_to_report_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(execution, "_WAKE_S", 0.5)
    run = execute(plan(tmp_path, STOPS_ITS_SUPERVISOR, timeout_s=2))
    assert run.timed_out
    assert not any(alive(pid) for pid in pids(tmp_path))


@pytest.mark.newest
@pytest.mark.parametrize("stays_frozen", [False, True])
def test_an_interrupt_ends_a_stopped_supervisor_soon(tmp_path: Path, *, stays_frozen: bool):
    """As a cancelled job of CI, which is killed after 10 s; and one of a cgroup that is frozen."""
    found: list[int] = []
    ended = threading.Event()

    def freeze() -> None:
        while not ended.wait(0.001):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGSTOP)

    freezer = threading.Thread(target=freeze)

    def interrupt(folder: Path) -> None:
        if (tmp_path / "pids").exists() and (folder / "pids").read_text(encoding="ascii"):
            launcher = pids(tmp_path)[0]
            text = Path(f"/proc/{launcher}/stat").read_text(encoding="ascii")
            found.append(int(text.rpartition(")")[2].split()[1]))
            if stays_frozen:
                freezer.start()
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            execute(plan(tmp_path, STOPS_ITS_SUPERVISOR), on_tick=interrupt)
    finally:
        ended.set()
    assert not any(alive(pid) for pid in pids(tmp_path))


#: Leaves a child that has nothing of the run, then kills the supervisor.
FORGETS_THE_RUN = """
    import os, signal, subprocess, sys, time
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);"
         "print('up', flush=True); time.sleep(600)"],
        start_new_session=True, stdout=subprocess.PIPE, env={}, cwd="/",
    )
    child.stdout.readline()
    open("pids", "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(WAITS)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
"""


@pytest.mark.parametrize("waits_s", [0, 1])
def test_what_a_killed_supervisor_leaves_is_ended_by_pytest(tmp_path: Path, waits_s: int):
    """Also what dropped its environment; a program that the tests have started stays."""
    own = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    beside = subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        run = execute(plan(tmp_path, FORGETS_THE_RUN.replace("WAITS", str(waits_s))))
        assert run.end.reason is EndReason.SUPERVISOR_DIED
        assert not any(alive(pid) for pid in pids(tmp_path))
        assert own.poll() is None
        assert beside.poll() is None
    finally:
        for process in (own, beside):
            process.communicate(b"\n")
