"""When each case was last certified."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.store.history import notes


def test_they_are_read_as_they_were_noted(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert notes.read_certificates(folder) == {}
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(lambda i: notes.note_certificate(folder, f"case-{i}", f"time-{i}"), range(40))
        )
    assert notes.read_certificates(folder) == {f"case-{i}": f"time-{i}" for i in range(40)}
    assert [path.name for path in folder.iterdir()] == ["certificates.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 3}'])
def test_a_file_that_cannot_be_read_only_loses_the_order(tmp_path: Path, text: str) -> None:
    (tmp_path / "certificates.json").write_text(text)
    assert notes.read_certificates(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DlperfError, match="cannot be written"):
        notes.note_certificate(tmp_path / "file", "a", "t")
