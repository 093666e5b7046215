"""TensorFlow's own strategy in a program: the example, with the newest TensorFlow as well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.user_folder import Folder

# Two launches, and the newest TensorFlow is an environment of its own; in CI Horovod trains.
pytestmark = [pytest.mark.tensorflow, pytest.mark.nightly]
EXAMPLE = Path(__file__).parents[2] / "examples/multi_worker"


def test_a_program_of_multi_worker_mirrored_strategy(folder: Folder):
    tf = pytest.importorskip("tensorflow")
    shutil.copytree(EXAMPLE, folder.path, dirs_exist_ok=True)
    result, outcomes = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-runs=1", "--dlperf-max-runs=1", "--cpus=1,2"
    )
    assert result.ret == 0
    assert [str(outcome["case"]["layout"]) for outcome in outcomes] == ["1n1c", "1n2c"]
    for ranks, outcome in enumerate(outcomes, start=1):
        measured = outcome["measurement"]
        assert measured is not None, outcome["judgement"]["reason"]
        assert outcome["environment"]["software"]["tensorflow"] == tf.__version__
        [run] = measured["runs"]
        assert [rank["rank"] for rank in run["ranks"]] == list(range(ranks))
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        # Workers that did not meet would be one replica each
        logs = [path.read_text("utf-8") for path in Path(run["folder"]).rglob("*.log")]
        assert sum(log.count(f"{tf.__version__}: {ranks} replicas") for log in logs) == ranks
