"""What is said of a file of the session that cannot be written."""

from __future__ import annotations

import errno
from pathlib import Path

from pytest_dlperf.measure.exhausted import file_words

FOLDER = Path("/disk/session")
REMEDY = "make room there, or name another folder with --dlperf-workdir"


def test_a_full_disk_is_named_by_the_folder_where_the_error_names_no_file() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert file_words(full, FOLDER) == f"a file in {FOLDER}: No space left on device; {REMEDY}"


def test_a_file_that_is_named_is_said() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/disk/a")
    assert file_words(full, FOLDER) == f"/disk/a: No space left on device; {REMEDY}"


def test_no_room_is_the_remedy_of_a_full_disk_alone() -> None:
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory", "/disk/a")
    assert file_words(gone, FOLDER) == "/disk/a: No such file or directory"
