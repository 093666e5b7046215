"""The suites train on real data formats; a broken image is named."""

from __future__ import annotations

import pytest

from tests.helpers.data_sets import faces, write_all
from tests.helpers.real_data import check_read, train

pytestmark = pytest.mark.paddle


def test_every_suite_trains_on_real_data(tmp_path):
    outcomes = train(tmp_path, write_all(tmp_path / "data"), "paddle")
    assert len(outcomes) == 8
    for outcome in outcomes:
        check_read(outcome)


def test_broken_image_is_named(tmp_path):
    faces(tmp_path / "data/arcface")
    broken = tmp_path / "data/arcface/images/00000003.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    [outcome] = train(tmp_path, tmp_path / "data", "paddle and arcface", "--cpus=1")
    assert outcome["judgement"]["verdict"] == "error"
    assert f"{broken} cannot be read as an image" in outcome["judgement"]["reason"]
