"""Every suite's tiny training in Paddle on two ranks: the loss falls, and faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.planted_suites import (
    Trained,
    faults_asked_for,
    gate_and_nightly,
    train_suites_of,
)

pytestmark = pytest.mark.paddle
#: What a suite's own training needs beside the defaults.
MARKERS: dict[str, dict[str, object]] = {
    "arcface": {"batch_size_per_device": 16},
    "bert": {"batch_size_per_device": 16},
    "deeplabv3p": {"batch_size_per_device": 8},
    # Of two images, shuffled labels are the right ones half of the time.
    "hrnet": {"batch_size_per_device": 8},
    "llama": {"batch_size_per_device": 4, "unit": "tokens"},
    "resnet50": {"batch_size_per_device": 32},
    "transformer": {"batch_size_per_device": 128, "unit": "tokens"},
    "tsm": {"batch_size_per_device": 4},
}
#: Tuned cases train as rightly; the faults are those of the same steps.
TUNED = {
    f"{suite}_tuned": MARKERS[suite] | {"options": {"tuned": True}}
    for suite in ("arcface", "deeplabv3p", "resnet50", "tsm")
}
#: DataParallel raises where activations are computed again in Paddle's default way.
RECOMPUTED = {"llama_recomputed": MARKERS["llama"] | {"options": {"recompute": True}}}
VARIANTS = TUNED | RECOMPUTED


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder, here = tmp_path_factory.mktemp("planted"), Path(__file__).parent
    return train_suites_of("paddle", MARKERS | VARIANTS, faults_asked_for(request), here, folder)


@pytest.mark.parametrize(
    ("suite", "faults"), [*gate_and_nightly(MARKERS), *((suite, ()) for suite in VARIANTS)]
)
def test_a_suite_trains_and_its_faults_are_found(
    trained: Trained, suite: str, faults: tuple[str, ...]
):
    trained.assert_faults_are_found(suite, faults)
