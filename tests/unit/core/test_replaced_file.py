"""Temporaries: whole files only, and nobody else's is removed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_dlperf.core.replaced_file import replace_file

#: Writes, and stops for good before the rename; says the name of its temporary.
STUCK = """
import os, sys, time
from pathlib import Path
from pytest_dlperf.core.replaced_file import replace_file

def stuck(temporary, _):
    print(temporary, flush=True)
    time.sleep(600)

os.replace = stuck
replace_file(Path(sys.argv[1]), b"half")
"""


def stuck_writer(path: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_living_writers_temporary_stays_and_a_dead_ones_goes(tmp_path: Path):
    path = tmp_path / "x.json"
    process, temporary = stuck_writer(path)
    try:
        replace_file(path, b"whole")
        assert temporary.read_bytes() == b"half"
    finally:
        process.kill()
        process.communicate()
    replace_file(path, b"again")
    assert path.read_bytes() == b"again"
    assert os.listdir(tmp_path) == ["x.json"]


def test_another_hosts_temporary_goes_when_it_is_old(tmp_path: Path):
    fresh, old = (tmp_path / f".x.json.0000000{n}-1-12345678.tmp" for n in range(2))
    for path in (fresh, old):
        path.write_text("half")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    replace_file(tmp_path / "x.json", b"whole")
    assert sorted(os.listdir(tmp_path)) == [fresh.name, "x.json"]


def test_what_fails_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "x.json"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new", synced=True)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.json"]


def test_modes_count_less_the_umask_and_names_may_be_as_long_as_they_can_be(tmp_path: Path):
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "open.json", b"")
        replace_file(tmp_path / "mine.json", b"", mode=0o600)
        replace_file(tmp_path / ("x" * 255), b"")
    finally:
        os.umask(before)
    modes = [(tmp_path / f"{name}.json").stat().st_mode & 0o777 for name in ("open", "mine")]
    assert modes == [0o640, 0o600]
