from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.stage import Stage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, help="how many sessions are killed (5)")
    parser.addoption("--seed", type=int, help="of the moments at which they are killed")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--kills", default=None) or 5


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--seed", default=None)
    return int.from_bytes(os.urandom(3), "big") if given is None else given
