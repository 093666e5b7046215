"""The suites train on real data formats; a broken image is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.data_sets import faces, kinetics, write_all
from tests.helpers.real_data import check_read, train

pytestmark = pytest.mark.paddle
Outcomes = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broken image among those of ArcFace."""
    path = tmp_path_factory.mktemp("data") / "arcface/images/00000003.jpg"
    faces(path.parents[1])
    path.write_bytes(path.read_bytes()[:200])
    return path


@pytest.fixture(scope="module")
def outcomes(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """TSM in one and in two ranks, and ArcFace, whose data are broken, in one."""
    data = broken.parents[2]
    kinetics(data / "tsm")
    which = "paddle and (tsm or (arcface and 1n1c))"
    found = train(tmp_path_factory.mktemp("session"), data, which)
    return {outcome["case"]["id"]: outcome for outcome in found}


def test_ranks_read_what_they_train_on(outcomes: Outcomes):
    tsm = {name: outcome for name, outcome in outcomes.items() if name.startswith("tsm")}
    assert {name.rpartition("-")[2] for name in tsm} == {"1n1c", "1n2c"}
    for outcome in tsm.values():
        check_read(outcome)


def test_broken_image_is_named(outcomes: Outcomes, broken: Path):
    [outcome] = [outcome for name, outcome in outcomes.items() if name.startswith("arcface")]
    assert outcome["judgement"]["verdict"] == "error"
    assert f"{broken} cannot be read as an image" in outcome["judgement"]["reason"]


# The readers are those of PyTorch's suites, which CI trains on their data; TSM's is above.
@pytest.mark.nightly
def test_every_suite_trains_on_real_data(tmp_path):
    found = train(tmp_path, write_all(tmp_path / "data"), "paddle and not (bert or transformer)")
    assert len(found) == 10
    for outcome in found:
        check_read(outcome)
