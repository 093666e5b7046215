"""The profile beside a baseline: written, read, refused, and not taken for a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.store.baseline import profile_file
from pytest_dlperf.store.baseline.store import BaselineStore

KEY = ("2x-cpu", "net", "net-torch-fp32-bs4-1n2c")
RECORD = ProfileRecord(
    windows=[{"steps": 1, "seconds": 0.5, "parts": {"compute": 0.5}}],
    operators=[{"path": "", "name": "aten::mm", "part": "compute", "calls": 1, "seconds": 0.4}],
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaselineStore:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return BaselineStore(tmp_path / "baselines")


def file_of(store: BaselineStore) -> Path:
    return store.root / KEY[0] / KEY[1] / f"{KEY[2]}.profile.json"


def test_what_is_stored_is_read_and_is_no_baseline(store: BaselineStore):
    assert store.profiles(*KEY) == []
    store.keep_profiles(*KEY, profile_file.to_bytes([RECORD, RECORD]))
    assert store.profiles(*KEY) == [RECORD, RECORD]
    assert list(store.all()) == []


def test_it_goes_with_its_baseline(store: BaselineStore):
    store.keep_profiles(*KEY, profile_file.to_bytes([RECORD]))
    store.delete(*KEY)
    assert not file_of(store).exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "profiles": []}',
        json.dumps({"format": 2, "profiles": [{"windows": []}]}),
        '{"format": 2, "profiles": [{"windows": [{"steps": 1, "parts": {"c": NaN}}]}]}',
        '{"format": 2, "profiles": [{"windows": [{"steps": 1, "parts": {"c": "1"}}]}]}',
    ],
)
def test_a_file_that_is_none_is_an_error_that_names_it(store: BaselineStore, text: str):
    file_of(store).parent.mkdir(parents=True)
    file_of(store).write_text(text, encoding="utf-8")
    with pytest.raises(BaselineError, match=r"profile\.json: not a profile") as caught:
        store.profiles(*KEY)
    assert "--dlperf-explain=always" in str(caught.value)
