"""Real training of TensorFlow, in two processes: what is measured."""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession
from tests.helpers.user_folder import Folder
from tests.tensorflow.conftest import tensorflow_session

pytestmark = pytest.mark.tensorflow
LAUNCHERS = {"horovod": "horovodrun", "alone": "tf-multiworker"}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One workload under Horovod, and under TensorFlow's own strategy."""
    tests = {name: {"launcher": launcher} for name, launcher in LAUNCHERS.items()}
    return tensorflow_session(tmp_path_factory.mktemp("right"), tests)


def last_losses(right: OneSession, name: str) -> list[float]:
    run = right[name].measurement["runs"][-1]
    return [rank["loss_last"] for rank in run["ranks"]]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_two_ranks_train_and_are_measured(right: OneSession, name: str):
    assert right.exit_code == 0, right.output
    measurement = right[name].measurement
    assert measurement["conditions"]["launcher"] == LAUNCHERS[name]
    assert measurement["conditions"]["input_shapes"] == [[8, 32]]
    assert measurement["conditions"]["parameter_count"] == 32 * 64 + 64 + 64 * 4 + 4
    run = measurement["runs"][-1]
    assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
    assert set(run["canary"]) == {
        "all_reduce_gb_per_s",
        "copy_gb_per_s",
        "matmul_gflop_per_s",
    }
    assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
    told = name == "horovod"  # TensorFlow's own strategy tells nothing of collectives
    scaling = run["scaling"]
    assert scaling["method"] == ("Horovod's timeline" if told else "")
    assert (scaling["collectives_share"] is not None) is told
    assert not told or 0 < scaling["collectives_share"] <= 1
    assert all(rank["own_seconds"] is None for rank in scaling["ranks"])
    assert scaling["all_reduce_gb_per_s"]["65536"] > 0
    right[name].assert_nothing_left()


def test_one_workload_trains_alike_under_horovod_and_under_tensorflow_alone(right: OneSession):
    losses = [last_losses(right, name) for name in LAUNCHERS]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] != losses[0][1], "ranks have data of their own"
    assert right.folder.ours() == []


def test_no_temporary_file_is_left(right: OneSession):
    """TensorFlow writes the functions that it makes of Python's into files, and imports them."""
    assert list((right.folder.path / "temporary").rglob("*")) == []


def test_amp_has_no_kernel_on_cpus(folder: Folder):
    folder.write(precision="amp")
    result, [outcome] = folder.run()
    assert outcome["judgement"]["verdict"] == "not-run"
    assert "CPU" in outcome["judgement"]["reason"]
    assert outcome["measurement"] is None
    assert result.ret == 1, "nothing was measured"
