"""What py-spy writes is read; what goes wrong with it is an error of the sampler alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.host_stacks import Sampler, stacks_of

RAW = """\
thread (7): "MainThread";<module> (/a/b/train.py:9);step (/a/b/train.py:7) 30
thread (8): "loader";run (/usr/lib/threading.py:3) 99
thread (7): "MainThread";<module> (/a/b/train.py:9);busy (/a/b/train.py:8) 10
"""


def test_the_main_thread_has_seconds_a_step():
    found = stacks_of(RAW, steps=10)
    assert [(one["frames"], one["seconds"]) for one in found] == [
        ("<module> (b/train.py:9);step (b/train.py:7)", pytest.approx(0.03)),
        ("<module> (b/train.py:9);busy (b/train.py:8)", pytest.approx(0.01)),
    ]


def test_other_text_is_an_error():
    with pytest.raises(ValueError, match="invalid literal"):
        stacks_of("no counts here", steps=1)


def test_without_py_spy_there_is_no_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host_stacks.sys, "executable", str(tmp_path / "python"))
    assert host_stacks.sampler(tmp_path, 0) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Permission denied (os error 13)'; exit 1", "Permission denied"),
        ("exit 0", "it said nothing"),
    ],
)
def test_a_sampler_that_may_not_read_the_process_says_so(tmp_path: Path, script: str, words: str):
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    sampler = Sampler(str(program), tmp_path / "stacks.txt")
    sampler.start()
    with pytest.raises(OSError, match=words):
        sampler.stop(1)


def test_the_stacks_are_those_that_the_program_writes(tmp_path: Path):
    program = tmp_path / "py-spy"
    program.write_text(
        # No shell: it cannot trap what it ignores from its start, as in a test of the background
        f"#!{sys.executable}\n"
        "import shutil, signal\n"
        "def write(*_):\n"
        f"    shutil.copy('{tmp_path}/raw', '{tmp_path}/stacks.txt')\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGINT, write)\n"
        "print('py-spy> Sampling process 100 times a second.', flush=True)\n"
        "while True:\n"
        "    signal.pause()\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    (tmp_path / "raw").write_text(RAW, encoding="utf-8")
    sampler = Sampler(str(program), tmp_path / "stacks.txt")
    sampler.start()
    assert len(sampler.stop(10)) == 2
    assert not (tmp_path / "stacks.txt").exists()
