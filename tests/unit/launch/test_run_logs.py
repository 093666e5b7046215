from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.process import run_logs
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.process.run_logs import CappedLog, RankLogs, absorb_logs, cap_files


def capped(path: Path, data: bytes, limit: int) -> bytes:
    """Return the log of ``data``, written to it in pieces of odd sizes."""
    reading, writing = os.pipe()
    with CappedLog(path, reading, limit=limit) as log:
        for begin in range(0, len(data), 777):
            os.write(writing, data[begin : begin + 777])
            log.drain()
        os.close(writing)
        assert not log.take()
        assert log.descriptors == []
    return path.read_bytes()


def lines(count: int) -> bytes:
    return b"".join(b"iteration %d\n" % index for index in range(count))


@pytest.mark.parametrize("size", [0, 1, 1999, 2000])
def test_a_log_below_the_cap_is_left_as_it_is(tmp_path: Path, size: int):
    data = lines(1000)[:size]
    assert capped(tmp_path / "log", data, 2000) == data


@pytest.mark.parametrize("count", [152, 157, 300, 1000, 5000])
def test_head_and_tail_are_kept_and_what_is_between_is_counted(tmp_path: Path, count: int):
    data = lines(count)
    kept = capped(tmp_path / "log", data, 2000)
    head, line, tail = kept.partition(b"--- dlperf: ")
    left_out, _, tail = tail.partition(b" bytes are left out here ---\n")
    assert line
    assert data.startswith(head)
    assert data.endswith(tail)
    assert int(left_out) == len(data) - len(head) - len(tail)
    # Whole lines, and most of what there is room for.
    assert head.endswith(b"\n")
    assert data[: -len(tail)].endswith(b"\n")
    assert 1900 < len(head) + len(tail) <= 2000


def test_a_line_without_end(tmp_path: Path):
    kept = capped(tmp_path / "log", b"x" * 10_000, 2000)
    assert kept.startswith(b"x" * 1000 + b"\n--- dlperf: 8000 bytes are left out here ---\n")
    assert kept.endswith(b"x" * 1000)


def test_a_log_on_a_full_disk_is_drained_all_the_same(tmp_path: Path):
    (tmp_path / "log").symlink_to("/dev/full")
    reading, writing = os.pipe()
    with CappedLog(tmp_path / "log", reading) as log:
        os.write(writing, b"words")
        log.drain()
        assert log.error == "No space left on device"
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    os.close(writing)


def test_logs_of_ranks_share_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_logs, "LOG_BYTES", 4000)
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_bytes(lines(1000))
    (tmp_path / "other").write_bytes(lines(1000))
    logs = RankLogs(tmp_path, "rank*.log", None)
    assert logs.too_long(10**6) == ""
    assert logs.too_long(1000).startswith(f"0 MiB, most of it in {tmp_path}/rank")
    logs.cap()
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("rank*.log"))]
    assert all(1900 < size < 2060 for size in sizes)
    assert (tmp_path / "other").read_bytes() == lines(1000)


def test_a_log_that_is_gone_is_none(tmp_path: Path):
    cap_files([tmp_path / "gone"])
    assert RankLogs(tmp_path, "", tmp_path / "private").too_long() == ""


def test_ranks_output_is_kept_and_the_environment_is_not(tmp_path: Path):
    folder, log = tmp_path / "logs", tmp_path / "output.log"
    folder.mkdir()
    log.write_text("launcher\n")
    for name, age_s, text in (
        ("workerlog.0", 0, "peer is gone\n"),
        ("workerlog.1", 60, "ValueError: boom\n"),
        ("envlog.0", 0, "PASSWORD=x\n"),
    ):
        (folder / name).write_text(text)
        changed_s = (folder / name).stat().st_mtime - age_s
        os.utime(folder / name, (changed_s, changed_s))
    absorb_logs(folder, log)
    text = log.read_text()
    assert text.index("launcher") < text.index("peer is gone") < text.index("ValueError: boom")
    assert "PASSWORD" not in text
    assert not folder.exists()


def test_the_sizes_of_ranks_logs_are_named_by_where_they_are_in_the_end(tmp_path: Path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "workerlog.0").write_bytes(b"12345")
    logs = RankLogs(tmp_path, "workerlog.*", private)
    assert logs.sizes() == {"workerlog.0": 5}
    (tmp_path / "output.log").touch()
    absorb_logs(private, tmp_path / "output.log")
    assert logs.sizes() == {"workerlog.0": 5}


def test_a_folder_that_was_never_made(tmp_path: Path):
    absorb_logs(tmp_path / "logs", tmp_path / "output.log")
    assert (tmp_path / "output.log").read_bytes() == b""


def test_the_supervisor_removes_it_also_after_a_timeout(tmp_path: Path):
    program = (
        "import os, pathlib, sys, time; f = pathlib.Path(sys.argv[1]); f.mkdir();"
        "(f / 'workerlog.0').write_text('hello'); (f / 'envlog.0').write_text('PASSWORD');"
        "time.sleep(60)"
    )
    folder = tmp_path / "logs"
    plan = LaunchPlan(
        case_id="c",
        argv=(sys.executable, "-c", program, str(folder)),
        env={},
        workdir=str(tmp_path),
        timeout_s=2,
        private_logs=str(folder),
    )
    run = execute(plan)
    assert run.timed_out
    assert not folder.exists()
    assert "hello" in Path(run.log).read_text()
