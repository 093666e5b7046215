"""However ranks of TensorFlow end: a clear verdict, and nothing of ours left."""

from __future__ import annotations

import pytest

from pytest_dlperf.launch.lease import lease_holder
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("launcher", "fault", "message"),
    [
        ("horovodrun", "raises", "ValueError: boom in step"),
        ("horovodrun", "killed", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("horovodrun", "sleeps", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("tf-multiworker", "killed", "rank 1 stopped at iteration 4 of 30, without a word"),
    ],
)
def test_a_rank_that_dies(folder: Folder, launcher: str, fault: str, message: str):
    folder.write(launcher=launcher, options={"fault": fault}, timeout_s=50.0)
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]
    assert "output.log" in outcome["judgement"]["reason"]
    assert folder.ours() == []
    assert lease_holder() is None


@pytest.mark.parametrize("fault", ["", "killed"])
def test_no_temporary_file_is_left(folder: Folder, monkeypatch: pytest.MonkeyPatch, fault: str):
    """TensorFlow writes the functions that it makes of Python's into files, and imports them."""
    temporary = folder.pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    folder.write(launcher="horovodrun", options={"fault": fault})
    _, [outcome] = folder.run("--dlperf-runs=1")
    assert (outcome["judgement"]["verdict"] == "error") == bool(fault)
    assert list(temporary.rglob("*")) == []
