"""What a pytest process is to its session, by what pytest-xdist has set."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pytest_dlperf
from pytest_dlperf.session.process import Process, Role, process_of


def config(*, workerinput: dict[str, Any] | None = None, **options: object) -> Any:
    values: dict[str, Any] = {} if workerinput is None else {"workerinput": workerinput}
    return SimpleNamespace(option=SimpleNamespace(**{"collectonly": False, **options}), **values)


@pytest.mark.parametrize(
    ("options", "role"),
    [
        pytest.param({}, Role.SINGLE, id="without pytest-xdist"),
        pytest.param({"dist": "no", "tx": []}, Role.SINGLE, id="-n 0"),
        pytest.param({"dist": "load", "tx": ["popen"] * 2}, Role.CONTROLLER, id="-n 2"),
        pytest.param(
            {"dist": "load", "tx": ["popen"], "collectonly": True}, Role.SINGLE, id="--co -n 1"
        ),
        pytest.param({"dist": "load", "tx": []}, Role.SINGLE, id="--dist without processes"),
    ],
)
def test_the_role_without_a_worker(options: dict[str, Any], role: Role):
    process = process_of(config(**options))
    assert process == Process(role=role)
    assert not process.is_worker


@pytest.mark.parametrize(("name", "number"), [("gw3", 3), ("mine", 0)])
def test_a_worker_has_a_number_and_the_name_of_its_session(name: str, number: int):
    workerinput = {"workerid": name, "workercount": 4, "testrunuid": "a1"}
    process = process_of(config(workerinput=workerinput, dist="no", tx=[]))
    assert process == Process(
        role=Role.WORKER, worker=name, number=number, count=4, session_name="a1"
    )
    assert process.is_worker


def test_no_other_module_asks_what_the_process_is():
    files = Path(pytest_dlperf.__file__).parent.rglob("*.py")
    assert {f.name for f in files if "workerinput" in f.read_text("utf-8")} == {"process.py"}
