"""``packages.json`` of a machine class: the lists whose digests sessions have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.packages import PACKAGES, PackageChange, packages_digest
from pytest_dlperf.flow.bench import Stored
from pytest_dlperf.store.baseline.packages_file import NAME
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import PLACE, outcome, write

OLD = {"numpy": "2.1.0", "torch": "2.12.0"}
NEW = {"numpy": "2.2.0", "torch": "2.12.0", "triton": "3.4"}


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def with_packages(packages: dict[str, str], second: int = 0):
    found = outcome(35.5, second=second)
    assert found.environment is not None
    software = {**found.environment.software, PACKAGES: packages_digest(packages)}
    environment = replace(found.environment, software=software, packages=packages)
    return replace(found, environment=environment)


def environment(packages: dict[str, str]) -> Environment:
    found = with_packages(packages).environment
    assert found is not None
    return found


def test_the_list_of_a_stored_session_is_there_once(store: BaselineStore):
    for second in range(3):
        write(store, with_packages(OLD, second), reason="")
    machine_class = PLACE[0]
    values = json.loads((store.root / machine_class / NAME).read_text())
    assert [one["packages"] for one in values["lists"]] == [OLD]
    found = store.find(*PLACE)
    assert found is not None
    assert {s.software[PACKAGES] for s in found.sessions} == {packages_digest(OLD)}
    assert "numpy" not in found.sessions[0].software


def test_what_differs_from_the_last_session_is_named(store: BaselineStore):
    write(store, with_packages(OLD), reason="")
    stored = Stored(store=store)
    found = stored.package_changes(store.find(*PLACE), environment(NEW))
    assert found == (
        PackageChange(name="numpy", before="2.1.0", now="2.2.0"),
        PackageChange(name="triton", before=None, now="3.4"),
    )
    assert [str(one) for one in found] == ["numpy: 2.1.0 -> 2.2.0", "triton: none -> 3.4"]
    assert stored.package_changes(store.find(*PLACE), environment(OLD)) == ()
    assert stored.package_changes(None, environment(NEW)) == ()


def test_the_lists_that_were_used_last_stay(store: BaselineStore):
    for number in range(25):
        store.keep_packages("m", {"numpy": f"{number}"})
    store.keep_packages("m", {"numpy": "10"})
    values = json.loads((store.root / "m" / NAME).read_text())
    kept = [one["packages"]["numpy"] for one in values["lists"]]
    assert kept == [*(str(n) for n in range(5, 25) if n != 10), "10"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"format": 2, "lists": []}',
        '{"format": 1, "lists": [{"digest": "0 (1)", "packages": {"numpy": "1"}}]}',
    ],
)
def test_a_file_that_is_not_one_is_an_error(store: BaselineStore, text: str):
    path = store.root / "m" / NAME
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(BaselineError, match=r"packages\.json: not lists of packages"):
        store.packages("m", "0 (1)")


def test_a_file_that_is_not_one_keeps_the_baseline_from_being_written(store: BaselineStore):
    path = store.root / PLACE[0] / NAME
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(BaselineError, match=r"packages\.json: not lists of packages"):
        write(store, with_packages(OLD), reason="")
    assert store.find(*PLACE) is None
