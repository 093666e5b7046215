"""A launcher that is not there is known before anything starts."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import TESTS, Suite


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "verdict"),
    [((), "not-run"), (("--dlperf-framework=torch",), "error")],
    ids=["", "asked"],
)
def test_a_missing_launcher_is_found_before_the_parent_runs(
    suite: Suite, asked: tuple[str, ...], verdict: str
):
    text = TESTS.replace("torchrun", "mpirun")
    suite.write(text)
    # Without the interpreters' folder and the system's: no launcher is there.
    (suite.path / "bin").mkdir()
    suite.env(PATH=suite.path / "bin", FAKE_LOG=suite.path / "launches")
    result, outcomes = suite.outcomes(*asked)
    assert result.ret == 1
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {verdict}
    for outcome in outcomes.values():
        assert "Open MPI brings it" in outcome["judgement"]["reason"]
        assert outcome["measurement"] is None
    assert not (suite.path / "launches").exists()
