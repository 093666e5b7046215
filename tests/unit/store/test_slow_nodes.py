"""``dlperf nodes``: from stored sessions and results files to a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from pytest_dlperf import cli
from pytest_dlperf.core.baseline import ReplacedLevel, Session
from pytest_dlperf.report import json_, schemas
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.stored_session import session_of
from tests.helpers.baseline_builders import (
    CONDITIONS,
    ENVIRONMENT,
    baseline,
    measurement,
    outcome,
    run,
)

RATES = {"n1": 100.0, "n2": 100.0, "n3": 92.0}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaselineStore:
    monkeypatch.chdir(tmp_path)
    return BaselineStore(tmp_path / "baselines")


def stored(store: BaselineStore, case: int, *nodes: str, **fields: Any) -> None:
    rng = np.random.default_rng(case)
    sessions = [
        Session(
            time=f"2026-11-{day + 1:02}T0{case}:0{i}:00Z",
            runs=tuple(
                float(f"{rate:.6g}")
                for rate in case * RATES[node] * np.exp(rng.normal(0, 0.004, 3))
            ),
            node=node,
            commit="c",
        )
        for day in range(2)
        for i, node in enumerate(nodes)
    ]
    case_id = f"tsm-torch-amp-bs{case}-1n8g"
    store.write(baseline(*sessions, case_id=case_id, **fields))


def nodes(capsys: Any, *arguments: str) -> Any:
    assert cli.main(["nodes", "--json", *arguments]) == 0
    values = json.loads(capsys.readouterr().out)
    jsonschema.validate(values, schemas.nodes_schema())
    return values


def test_the_slow_node_of_stored_sessions_is_named(store, capsys):
    for case in range(1, 7):
        stored(store, case, "n1", "n2", "n3")
    values = nodes(capsys)
    assert (values["format"], values["sessions"]) == (1, 36)
    assert values["nodes"][0]["node"] == "n3"
    assert cli.main(["nodes", f"--baselines={store.root}"]) == 0
    shown = capsys.readouterr().out
    assert "n3 is 8." in shown or "n3 is 7." in shown
    assert "slower than the others over 6 cases (p < 0.001)" in shown


def measured(node: str, rate: float, second: int, **fields: Any) -> Any:
    runs = tuple(
        replace(one, ranks=tuple(replace(rank, node=node) for rank in one.ranks))
        for one in (run(rate), run(1.001 * rate), run(0.999 * rate))
    )
    return outcome(
        measured=measurement(runs=runs, **fields),
        second=second,
        environment=replace(ENVIRONMENT, node="head"),
    )


def test_results_files_have_the_node_of_the_first_rank(store, tmp_path, capsys):
    results = tmp_path / "r.json"
    found = [measured("n1", 100, 1), measured("n1", 101, 2), measured("n2", 90, 3)]
    json_.write(results, found)
    values = nodes(capsys, str(results))
    assert {one["node"] for one in values["nodes"]} == {"n1", "n2"}
    assert values["sessions"] == 3


def test_a_session_that_is_stored_and_in_a_results_file_counts_once(store, tmp_path, capsys):
    one = measured("head", 100 / 3, 1)
    stored_one = session_of(one, reason="")
    store.write(baseline(stored_one, conditions=CONDITIONS))
    results = tmp_path / "r.json"
    json_.write(results, [one, measured("head", 99, 2)])
    values = nodes(capsys, str(results))
    assert (values["sessions"], values["nodes"][0]["cases"]) == (2, 1)


def test_injected_steps_and_other_conditions_are_no_slow_node(store, tmp_path, capsys):
    results = tmp_path / "r.json"
    other = replace(CONDITIONS, threads_per_rank=9)
    found = [measured("n1", 100, 1), measured("n1", 101, 2)]
    found += [measured("n2", 50, 3, inject=0.5), measured("n2", 50, 4, conditions=other)]
    json_.write(results, found)
    values = nodes(capsys, str(results))
    assert values["sessions"] == 3
    assert {one["effect"] for one in values["nodes"]} == {None}
    assert len({one["group"] for one in values["nodes"]}) == 2


def test_an_old_level_is_a_case_of_its_own(store, capsys):
    old = ReplacedLevel(
        replaced="2026-10-01T00:00:00Z",
        reason="new driver",
        unit="samples",
        sessions=tuple(
            Session(time=f"2026-09-0{day}T00:00:00Z", runs=(50.0, 50.1), node="n3")
            for day in (1, 2, 3)
        ),
    )
    stored(store, 1, "n1", "n2", history=(old,))
    values = nodes(capsys)
    by_name = {one["node"]: one for one in values["nodes"]}
    assert by_name["n3"]["effect"] is None
    assert by_name["n1"]["effect"] is not None


def test_sessions_without_a_node_are_counted(store, capsys):
    store.write(baseline(Session(time="2026-11-01T00:00:00Z", runs=(1.0,))))
    assert nodes(capsys)["without_node"] == 1
    assert cli.main(["nodes"]) == 0
    assert "1 session without a node: left out" in capsys.readouterr().out


def test_unreadable_input_is_named(store, tmp_path, capsys):
    assert cli.main(["nodes"]) == 2
    assert "baselines is not a directory" in capsys.readouterr().err
    results = tmp_path / "r.json"
    results.write_text("{", encoding="utf-8")
    assert cli.main(["nodes", str(results)]) == 2
    assert str(results) in capsys.readouterr().err
    json_.write(results, [])
    assert cli.main(["nodes", str(results), "--baselines=absent"]) == 2
    assert "absent is not a directory" in capsys.readouterr().err
    stored(store, 1, "n1", "n2")
    path = next(store.root.rglob("*.json"))
    path.write_text("{}", encoding="utf-8")
    assert cli.main(["nodes"]) == 2
    assert path.name in capsys.readouterr().err


def test_the_schema_in_the_repository_is_the_one_that_is_made():
    """``python -m pytest_dlperf.report.schemas`` writes it again."""
    assert schemas.file_of("nodes").read_text(encoding="utf-8") == schemas.render("nodes")
