"""The suites train on real data formats; what is wrong with the data is said in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.data_sets import faces, kinetics, write_all
from tests.helpers.one_session import OneSession, run_together
from tests.helpers.real_data import check_read, train
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch
#: TSM in bf16 takes as long as all others.
PRECISIONS = "(bf16 and not tsm) or (fp32 and tsm)"
DTYPES = {
    "arcface": "bfloat16",
    "deeplabv3p": "bfloat16",
    "resnet50": "bfloat16",
    "tsm": "float32",
}
#: Of a workload of one's own, each with the sentence that must name it.
FAULTS = {
    "broken": "sample 13 cannot be read: ZeroDivisionError",
    "smaller": "a batch of job.batches has 1 rows, and a whole one",
    "same": "ranks 0 and 1 both read sample",
    "unused": "the workload read nothing through job.batches(loader)",
}


@pytest.mark.parametrize(
    "processes",
    [(1,), pytest.param((1, 2), marks=pytest.mark.nightly)],
)
def test_every_suite_trains_on_real_data(tmp_path: Path, processes: tuple[int, ...]):
    """In bfloat16; test_planted_in_each_suite.py trains them in float32, on synthetic data."""
    which = f"torch and ({' or '.join(DTYPES)})"
    layouts = f"--cpus={','.join(map(str, processes))}"
    data = write_all(tmp_path / "data")
    outcomes = train(tmp_path, data, which, layouts, precision=PRECISIONS)
    assert len(outcomes) == 4 * len(processes)
    for outcome in outcomes:
        check_read(outcome)
        dtype = DTYPES[outcome["case"]["suite"]]
        assert outcome["measurement"]["conditions"]["dtype"] == dtype
        assert all(len(run["step_seconds"]) == 12 for run in outcome["measurement"]["runs"])


@pytest.mark.nightly  # the gate has its main way
def test_what_is_wrong_is_said_and_other_cases_run(tmp_path: Path):
    data = tmp_path / "data"
    kinetics(data / "tsm")
    faces(data / "arcface")
    broken = data / "arcface/images/00000003.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    outcomes = train(tmp_path, data, "torch and (arcface or deeplabv3p or tsm)", "--cpus=1")
    reasons = {o["case"]["suite"]: o["judgement"]["reason"] for o in outcomes}
    errors = {o["case"]["suite"] for o in outcomes if o["judgement"]["verdict"] == "error"}
    assert errors == {"arcface", "deeplabv3p"}
    assert len(outcomes) == 3
    assert f"rank 0: {broken} cannot be read as an image" in reasons["arcface"]
    assert f"--dlperf-data={data} has no folder leftImg8bit/train" in reasons["deeplabv3p"]


def test_missing_folder_is_an_error(tmp_path: Path):
    [outcome] = train(tmp_path, tmp_path / "none", "torch and tsm", "--cpus=1")
    assert outcome["judgement"]["verdict"] == "error"
    assert (
        f"--dlperf-data={tmp_path / 'none'} is not a directory" in outcome["judgement"]["reason"]
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """A workload of one's own that reads with processes beside it; right, and with each fault."""
    path = tmp_path_factory.mktemp("own")
    (path / "data").mkdir()
    tests = {
        fault or "right": {
            "workload": "reading:build", "iterations": 12, "warmup": 4, "speedup": None,
            "options": {"data_workers": 2, "fault": fault},
        }
        for fault in ("", *FAULTS)
    }  # fmt: skip
    return run_together(path, tests, "--dlperf-data=data", "--cpus=2", workloads=HERE)


@pytest.mark.nightly  # the gate has suites that read real data
def test_a_workload_of_ones_own_reads_with_processes_beside_it(own: OneSession):
    measurement = own["right"].measurement
    conditions = measurement["conditions"]
    assert conditions["data"] == "real"
    assert conditions["options"]["data_workers"] == 2
    assert measurement["runs"][0]["data_wait_share"] > 0
    own["right"].assert_nothing_left()


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_samples_is_said(own: OneSession, fault: str):
    own[fault].assert_error(FAULTS[fault])
