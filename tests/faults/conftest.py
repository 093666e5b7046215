from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.fault_table import ROWS, merge
from tests.helpers.scene import Scene

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--all-faults", action="store_true", help="also those that take long")
    group.addoption("--faults-table", type=Path, help="put the rows of this run into that file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long_fault") and not config.getoption("--all-faults"):
            item.add_marker(pytest.mark.skip(reason="takes long: --all-faults"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--faults-table")
    if path is not None:
        merge(path, session.config.stash[ROWS])


def path_of_ranks() -> str:
    return os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])


@pytest.fixture
def scene(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Scene:
    monkeypatch.setenv("PYTHONPATH", path_of_ranks())
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    return Scene(pytester.path, request.config.stash[ROWS])


@pytest.fixture(scope="module")
def shared_scene(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """A scene for all tests of a module."""
    path = tmp_path_factory.mktemp("shared")
    runtime = path / "runtime"
    runtime.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path_of_ranks())
        patch.setenv("DLPERF_RUNTIME_DIR", str(runtime))
        yield Scene(path, request.config.stash[ROWS])
