"""``noise.json`` of a machine class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.verdict import LearntNoise, MachineNoise
from pytest_dlperf.store.baseline import noise_file

NOISE = MachineNoise(
    machine_class="2x-test",
    world_sizes={
        "2": LearntNoise(
            run_sd=0.01, run_df=30.0, session_sd=0.005, session_df=20.0, cases=4, sessions=12
        )
    },
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert noise_file.read(tmp_path, "2x-test") is None
    noise_file.write(tmp_path, "2x-test", lambda: NOISE)
    found = noise_file.read(tmp_path, "2x-test")
    assert found == NOISE
    assert found is not None
    prior = found.prior(2)
    assert prior is not None
    assert prior.learnt
    assert found.prior(8) is None
    assert [path.name for path in (tmp_path / "2x-test").iterdir()] == ["noise.json"]


def test_without_noise_to_store_nothing_changes(tmp_path: Path) -> None:
    noise_file.write(tmp_path, "2x-test", lambda: None)
    assert not (tmp_path / "2x-test").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format: 2, and this version reads 1"),
        ({"machine_class": "other"}, "machine_class: 'other', but the path"),
        ({"world_sizes": {"2": {"run_sd": 0}}}, "world_sizes"),
        ({"extra": 1}, "extra"),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_field(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    noise_file.write(tmp_path, "2x-test", lambda: NOISE)
    path = tmp_path / "2x-test" / "noise.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BaselineError) as caught:
        noise_file.read(tmp_path, "2x-test")
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert "learns it again" in str(caught.value)


def test_a_spread_of_nothing_is_nonsense(tmp_path: Path) -> None:
    noise_file.write(tmp_path, "2x-test", lambda: NOISE)
    path = tmp_path / "2x-test" / "noise.json"
    path.write_text(path.read_text().replace('"run_sd": 0.01', '"run_sd": 0.0'))
    with pytest.raises(BaselineError, match=r"run_sd: 0\.0 must be finite and above 0"):
        noise_file.read(tmp_path, "2x-test")
