"""However ranks of TensorFlow end: a clear verdict, and nothing of ours left."""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession
from tests.tensorflow.conftest import tensorflow_session

pytestmark = pytest.mark.tensorflow
#: Each with the sentence that must name it. Without a word a rank's log is named.
FAULTS = {
    "raises": "ValueError: boom in step",
    "killed": "rank 1 stopped at iteration 4 of 30, without a word",
    "not-averaged": "gradients are not averaged",
    "undeclared": "no replicated parameters were declared",
}
DEATHS = ("raises", "killed")


def faulty(
    fault: str, launcher: str = "horovodrun", timeout_s: float = 120.0
) -> dict[str, object]:
    return {"launcher": launcher, "options": {"fault": fault}, "timeout_s": timeout_s}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    tests = {fault.replace("-", "_"): faulty(fault) for fault in FAULTS}
    return tensorflow_session(tmp_path_factory.mktemp("wrong"), tests)


@pytest.fixture(scope="module")
def wrong_as_well(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    tests = {
        "sleeps": faulty("sleeps", timeout_s=50.0),
        "alone_killed": faulty("killed", "tf-multiworker"),
    }
    return tensorflow_session(tmp_path_factory.mktemp("wrong"), tests)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_is_named_and_nothing_is_left(wrong: OneSession, fault: str):
    assert wrong.exit_code == 1
    ended = wrong[fault.replace("-", "_")]
    ended.assert_error(FAULTS[fault])
    if fault in DEATHS:
        assert "output.log" in ended.reason
    assert wrong.folder.ours() == []


def test_no_temporary_file_is_left(wrong: OneSession):
    assert list((wrong.folder.path / "temporary").rglob("*")) == []


# A hang is seen when its timeout of 50 s has passed; the other ends as it does under Horovod.
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["sleeps", "alone_killed"])
def test_a_rank_that_hangs_or_dies_under_tensorflow_alone(wrong_as_well: OneSession, name: str):
    assert wrong_as_well.exit_code == 1
    ended = wrong_as_well[name]
    ended.assert_error("rank 1 stopped at iteration 4 of 30, without a word")
    assert "output.log" in ended.reason
    assert wrong_as_well.folder.ours() == []
