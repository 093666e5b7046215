"""Facts about scaling in a baseline file: stored to be reported later, absent in older files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.run import RankScaling, Scaling, StoredScaling
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.stored_session import session_of
from tests.helpers.baseline_builders import (
    CASE_ID,
    MACHINE,
    PLACE,
    baseline,
    measurement,
    outcome,
    run,
    session,
)


def scaled(share: float | None) -> Scaling:
    ranks = tuple(
        RankScaling(rank=r, node="node1", step_seconds=0.2, own_seconds=own)
        for r, own in enumerate((0.1, 0.11))
    )
    return Scaling(
        method="steps without averaging",
        ranks=ranks,
        collectives_share=share,
        all_reduce_gb_per_s={"65536": 0.5},
    )


def test_a_session_keeps_the_share_of_each_run_that_knows_it(tmp_path: Path):
    shares = (0.23, None, 0.25)
    runs = [replace(run(35.5), scaling=scaled(share)) for share in shares]
    stored = session_of(outcome(measured=measurement(runs=runs)), reason="")
    assert stored.scaling == StoredScaling(
        method="steps without averaging",
        collectives_shares=(0.23, 0.25),
        skew_of="own steps",
        skews=(0.1, 0.1, 0.1),
        all_reduce_gb_per_s={"65536": 0.5},
    )
    store = BaselineStore(tmp_path)
    store.write(baseline(stored))
    found = store.find(*PLACE)
    assert found is not None
    assert found.sessions == (stored,)


def test_a_file_of_before_scaling_was_measured_is_read(tmp_path: Path):
    store = BaselineStore(tmp_path)
    store.write(baseline(session()))
    path = store.root / MACHINE / "tsm" / f"{CASE_ID}.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["sessions"][0]["scaling"]
    path.write_text(json.dumps(values), encoding="utf-8")
    found = store.find(*PLACE)
    assert found is not None
    assert found.sessions[0].scaling is None


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"collectives_shares": [0.2, 1.5]}, "scaling.collectives_shares[1]: 1.5 must be a share"),
        ({"skews": [-1.0]}, "scaling.skews[0]: -1.0 must be above -1"),
        ({"all_reduce_gb_per_s": {"65536": 0.0}}, "all_reduce_gb_per_s[65536]: 0.0 must be"),
    ],
)
def test_what_no_run_can_measure_is_an_error_that_names_the_field(
    tmp_path: Path, fields: dict[str, Any], where: str
):
    store = BaselineStore(tmp_path)
    store.write(baseline(session(scaling=StoredScaling(method="x"))))
    path = store.root / MACHINE / "tsm" / f"{CASE_ID}.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["sessions"][0]["scaling"] |= fields
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        store.find(*PLACE)
    assert where in str(caught.value)
