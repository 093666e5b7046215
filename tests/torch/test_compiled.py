"""torch.compile: what it did is told, and within the window it makes a case unsteady."""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """Trainings whose shapes never change, change in the window, and in the watched iteration."""
    common = {"workload": "compiled:build", "layout": "1n1c"}
    return run_together(
        tmp_path_factory.mktemp("compiled"),
        {
            "steady": common,
            "in_window": {**common, "options": {"new_shape_at": 20}},
            "watched": {**common, "options": {"new_shape_at": 5}},
        },
        workloads=HERE,
    )


def test_compiling_before_the_window_is_told(compiled: OneSession):
    outcome = compiled["steady"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["compile_seconds"] > 0
        assert run["extras"]["compiled_frames"] >= 1
        assert run["extras"]["recompiles_in_window"] == 0
        assert "recompiled" not in {p["code"] for p in run["problems"]}


def test_a_recompile_within_the_window_is_unsteady(compiled: OneSession):
    outcome = compiled["in_window"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["recompiles_in_window"] == 1
        assert 0 < run["extras"]["compile_seconds_in_window"] < run["extras"]["compile_seconds"]
    problems = {p["code"]: p["message"] for p in outcome["measurement"]["problems"]}
    assert "torch.compile compiled 1 frame within the measured window" in problems["recompiled"]
    # Unless somebody used this machine all the time, which counts before it.
    expected = "incomparable" if "disturbed" in problems else "unsteady"
    assert outcome["judgement"]["verdict"] == expected


def test_what_watches_the_arithmetic_leaves_compiled_functions_compiled(compiled: OneSession):
    """Compiled once before the watched iteration, and not again, nor never again, after it."""
    outcome = compiled["watched"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["compiled_frames"] == 2
    assert outcome["measurement"]["conditions"]["dtype"] == "float32"
