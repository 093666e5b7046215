"""An outcome as files and reports hold it: which of its texts may still be a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Confirmation, Outcome, as_written, outcome_to_json
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict
from tests.helpers.filled import filled

SECRET = "geheim-12"


def fields_with(text: str, value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from fields_with(text, item, key)
    elif isinstance(value, list):
        for item in value:
            yield from fields_with(text, item, name)
    elif isinstance(value, str) and text in value:
        yield name


def test_only_names_by_which_things_are_found_keep_a_text_that_is_a_secret():
    run = filled(RunSummary, SECRET, throughput=100.0)
    measurement = filled(Measurement, SECRET, runs=(run,))
    outcome = filled(Outcome, SECRET, measurement=measurement)
    before = set(fields_with(SECRET, outcome_to_json(outcome)))
    assert {"reason", "message", "command", "sentence", "node"} <= before
    written = outcome_to_json(as_written(outcome, [SECRET]))
    assert set(fields_with(SECRET, written)) <= {
        # Of the case, which is the user's own
        "launcher", "issue", "until",
        "case_id", "code", "commit", "folder", "hardware", "machine_class", "node_id", "time",
        "unit",
    }  # fmt: skip
    assert written["case"]["command"] == ["…"]
    assert written["judgement"]["reason"] == "…"


def test_figures_of_findings_keep_no_secret_whatever_their_name():
    names = ("folder", "unit", "code", "commit", "text")
    finding = Finding(
        code="looked-in", weight=Weight.NOTE, figures=dict.fromkeys(names, f"/tmp/{SECRET}")
    )
    judgement = Judgement(verdict=Verdict.PASSED, reason="so", findings=(finding,))
    confirmation = Confirmation(stored=judgement, commit="1a2b3c4", pairs=judgement)
    outcome = filled(Outcome, SECRET, judgement=judgement, confirmation=confirmation)
    written = as_written(outcome, [SECRET])
    assert written.confirmation is not None
    assert written.confirmation.pairs is not None
    for kept in (written.judgement, written.confirmation.stored, written.confirmation.pairs):
        assert kept.findings[0].figures == dict.fromkeys(names, "/tmp/…")
