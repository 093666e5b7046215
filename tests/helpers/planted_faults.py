"""A right training's baseline is stored; then the same case trains with a fault planted in it.

The fault is named in the environment: an option of the case would be a condition, and another
condition is incomparable before anything is said of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.fault_in_environment import VARIABLE
from tests.helpers.user_folder import Folder

ROOT = Path(__file__).parents[2]
#: A run that others disturbed teaches as much here as any other.
ONCE = ("--dlperf-runs=1", "--dlperf-max-runs=1", "-p", "tests.helpers.no_repeats")
#: Each with the sentence that must say why it is wrong.
FAULTS = {
    "learning-rate-0": "the loss did not fall",
    "shuffled-labels": "fast but wrong",
    "not-averaged": "gradients are not averaged over the ranks",
}


def assert_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the right training as the baseline, repeat it, and then plant every fault."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # the suites, in every rank
    result, [right] = folder.run(*ONCE, "--update-baselines", "--dlperf-reason=right")
    assert result.ret == 0, right["judgement"]["reason"]
    [stored] = folder.path.glob("baselines/*/net/*.json")
    kept = stored.read_bytes()
    assert json.loads(kept)["sessions"][0]["loss_fall"] > 0
    # Slower or faster, as others use the machine; but no fault is seen where none is.
    _, [again] = folder.run(*ONCE)
    assert again["judgement"]["verdict"] != "error", again["judgement"]["reason"]
    for fault, sentence in FAULTS.items():
        with monkeypatch.context() as patch:
            patch.setenv(VARIABLE, fault)
            result, [wrong] = folder.run(*ONCE, "--update-baselines", "--dlperf-reason=wrong")
        assert wrong["case"] == right["case"]
        assert wrong["judgement"]["verdict"] == "error", fault
        assert sentence in wrong["judgement"]["reason"]
        assert result.ret == 1
        assert stored.read_bytes() == kept, "a wrong training became the baseline"
