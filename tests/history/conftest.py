from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers import postgresql

if TYPE_CHECKING:
    from pytest_dlperf.store.history.address import Address

_NAMES = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgresql.Cluster]:
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    if why := postgresql.missing():
        pytest.skip(why)
    with postgresql.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """A history of each kind, with nothing in it."""
    from pytest_dlperf.store.history.address import parse_address

    if request.param == "sqlite":
        return parse_address("h.sqlite", folder=tmp_path, what="test")
    server: postgresql.Cluster = request.getfixturevalue("cluster")
    url = server.make_database(f"history{next(_NAMES)}")
    return parse_address(url, folder=tmp_path, what="test")


@pytest.fixture
def file_address(tmp_path: Path) -> Address:
    from pytest_dlperf.store.history.address import parse_address

    return parse_address("h.sqlite", folder=tmp_path, what="test")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    """The history that commands read where none is named."""
    from pytest_dlperf.store.history.address import parse_address

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLPERF_HISTORY", raising=False)
    return parse_address(".dlperf/history.sqlite", folder=tmp_path, what="test")
