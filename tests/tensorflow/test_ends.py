"""However ranks of TensorFlow end: a clear verdict, and nothing of ours left."""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession
from tests.tensorflow.conftest import tensorflow_session

pytestmark = pytest.mark.tensorflow
#: Each with the sentence that must name it.
FAULTS = {
    "killed": "rank 1 stopped at iteration 4 of 30, without a word",
    "not-averaged": "gradients are not averaged",
}
MORE_FAULTS = {
    "raises": "ValueError: boom in step",
    "undeclared": "no replicated parameters were declared",
    # A hang is seen when its timeout has passed.
    "sleeps": "rank 1 stopped at iteration 4 of 30, without a word",
}
#: They end by a launcher whose words are kept: their reason names the log.
DEATHS = ("raises", "killed", "sleeps")


def faulty(
    fault: str, launcher: str = "horovodrun", timeout_s: float = 120.0
) -> dict[str, object]:
    return {"launcher": launcher, "options": {"fault": fault}, "timeout_s": timeout_s}


def name_of(fault: str) -> str:
    return fault.replace("-", "_")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    tests = {name_of(fault): faulty(fault) for fault in FAULTS}
    return tensorflow_session(tmp_path_factory.mktemp("wrong"), tests)


@pytest.fixture(scope="module")
def more_wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    tests = {name_of(fault): faulty(fault) for fault in MORE_FAULTS}
    tests["sleeps"] = faulty("sleeps", timeout_s=50.0)
    tests["alone_killed"] = faulty("killed", "tf-multiworker")
    return tensorflow_session(tmp_path_factory.mktemp("wrong"), tests)


def check(session: OneSession, fault: str, message: str) -> None:
    assert session.exit_code == 1
    ended = session[name_of(fault)]
    ended.assert_error(message)
    if fault in DEATHS:
        assert "output.log" in ended.reason
    assert session.folder.ours() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_is_named_and_nothing_is_left(wrong: OneSession, fault: str):
    check(wrong, fault, FAULTS[fault])


def test_no_temporary_file_is_left(wrong: OneSession):
    assert list((wrong.folder.path / "temporary").rglob("*")) == []


@pytest.mark.nightly  # two ranks of TensorFlow for each; in CI PyTorch's and Paddle's end so
@pytest.mark.parametrize("fault", MORE_FAULTS)
def test_what_else_goes_wrong(more_wrong: OneSession, fault: str):
    check(more_wrong, fault, MORE_FAULTS[fault])


@pytest.mark.nightly  # it ends as it does under Horovod
def test_a_rank_that_dies_under_tensorflow_alone(more_wrong: OneSession):
    check(more_wrong, "alone_killed", FAULTS["killed"])
    assert "output.log" in more_wrong["alone_killed"].reason
