"""The sharded classifier gives the losses and the weights of an unsharded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.gloo_ranks import reports_of

pytestmark = pytest.mark.torch
SCRIPT = Path(__file__).with_name("arcface_ranks.py")


def test_two_ranks_give_the_loss_of_one_on_the_same_global_batch(tmp_path: Path):
    alone, first, second = reports_of(SCRIPT, tmp_path)
    assert first["losses"] == second["losses"]
    assert first["losses"] == pytest.approx(alone["losses"], rel=1e-8)
    assert alone["losses"][-1] < alone["losses"][0]
    assert first["trunk"] == pytest.approx(alone["trunk"], rel=1e-8)
    # What tuned cases compute without a wait for the GPU
    for report in (alone, first, second):
        assert report["masked_apart"] <= 1e-12 * report["largest_gradient"]
    assert (first["classes"], second["classes"], alone["classes"]) == (50, 51, 101)
    sharded = first["classifier"] + second["classifier"]
    assert sharded == pytest.approx(alone["classifier"], rel=1e-8)
