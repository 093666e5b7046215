"""The suites train on real data formats; what is wrong with the data is said in one sentence."""

from __future__ import annotations

import pytest

from tests.helpers.data_sets import faces, kinetics, write_all
from tests.helpers.real_data import check_read, train

pytestmark = pytest.mark.torch


def test_every_suite_trains_on_real_data(tmp_path):
    outcomes = train(tmp_path, write_all(tmp_path / "data"), "torch")
    assert len(outcomes) == 8
    for outcome in outcomes:
        check_read(outcome)


def test_what_is_wrong_is_said_and_other_cases_run(tmp_path):
    data = tmp_path / "data"
    kinetics(data / "tsm")
    faces(data / "arcface")
    broken = data / "arcface/images/00000003.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    outcomes = train(tmp_path, data, "torch and not resnet50", "--cpus=1")
    reasons = {o["case"]["suite"]: o["judgement"]["reason"] for o in outcomes}
    errors = {o["case"]["suite"] for o in outcomes if o["judgement"]["verdict"] == "error"}
    assert errors == {"arcface", "deeplabv3p"}
    assert len(outcomes) == 3
    assert f"rank 0: {broken} cannot be read as an image" in reasons["arcface"]
    assert f"--dlperf-data={data} has no folder leftImg8bit/train" in reasons["deeplabv3p"]


def test_missing_folder_is_an_error(tmp_path):
    [outcome] = train(tmp_path, tmp_path / "none", "torch and tsm", "--cpus=1")
    assert outcome["judgement"]["verdict"] == "error"
    assert f"--dlperf-data={tmp_path / 'none'} is no folder" in outcome["judgement"]["reason"]


@pytest.mark.parametrize("fault", ["", "broken", "same", "unused"])
def test_a_workload_of_ones_own_reads_with_processes_beside_it(folder, fault):
    (folder.path / "data").mkdir()
    folder.write(
        "reading:build",
        iterations=12, warmup=4, options={"data_workers": 2, "fault": fault},
    )  # fmt: skip
    _, [outcome] = folder.run("--dlperf-data=data", "--cpus=2")
    reason = outcome["judgement"]["reason"]
    if fault:
        assert outcome["judgement"]["verdict"] == "error"
        said = {
            "broken": "sample 13 cannot be read: ZeroDivisionError",
            "same": "ranks 0 and 1 both read sample",
            "unused": "the workload read nothing through job.batches(loader)",
        }[fault]
        assert said in reason
        return
    assert outcome["measurement"] is not None, reason
    conditions = outcome["measurement"]["conditions"]
    assert conditions["data"] == "real"
    assert conditions["options"]["data_workers"] == 2
    assert outcome["measurement"]["runs"][0]["data_wait_share"] > 0
    assert folder.ours() == []
