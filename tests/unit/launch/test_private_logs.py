from __future__ import annotations

import os
import sys
from pathlib import Path

from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.process.run_logs import absorb_logs


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
