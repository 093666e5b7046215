"""Which history a session is added to, by what names it, and what may not name it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import IN_JOB
from pytest_dlperf.session.settings import HistoryWish
from tests.helpers.given_options import settings_of

pytestmark = pytest.mark.history

#: Each with what it is called.
WAYS = {"option": "--dlperf-history", "environment": "DLPERF_HISTORY", "ini": "ini dlperf_history"}
needs_sqlalchemy = pytest.mark.skipif(
    importlib.util.find_spec("sqlalchemy") is None,
    reason="the extra history is not installed (tox env outputs)",
)


def request(folder: Path, *arguments: str, **named: str) -> HistoryWish | None:
    """Return the request of a session whose history is named so, by the way to name it."""
    options = [f"--dlperf-history={named['option']}"] if "option" in named else []
    return settings_of(
        *options, *arguments, folder=folder,
        ini={"dlperf_history": named.get("ini", "")},
        environ={"DLPERF_HISTORY": named["environment"]} if "environment" in named else {},
    ).history  # fmt: skip


@needs_sqlalchemy
@pytest.mark.parametrize("way", WAYS)
def test_a_history_that_is_named_is_taken_and_off_is_none(tmp_path: Path, way: str):
    assert request(tmp_path, **{way: "sub/team.sqlite"}) == HistoryWish(
        text="sub/team.sqlite", folder=tmp_path, named_by=WAYS[way]
    )
    assert request(tmp_path, **{way: "off"}) is None


@needs_sqlalchemy
def test_the_option_is_before_the_environment_and_that_before_the_ini_file(tmp_path: Path):
    named = {"ini": "i.sqlite", "environment": "postgresql://nobody@/none", "option": "o.sqlite"}
    found = request(tmp_path, **named)
    assert found is not None
    assert (found.text, found.named_by) == ("o.sqlite", "--dlperf-history")
    found = request(tmp_path, ini="i.sqlite", environment="e.sqlite")
    assert found is not None
    assert (found.text, found.named_by) == ("e.sqlite", "DLPERF_HISTORY")
    assert request(tmp_path, ini="i.sqlite", environment="off") is None


@needs_sqlalchemy
def test_where_none_is_named_it_is_that_of_the_working_folder(tmp_path: Path):
    assert request(tmp_path) == HistoryWish(text="", folder=tmp_path, named_by="")


def test_a_job_has_none(tmp_path: Path):
    assert request(tmp_path, f"--dlperf-scheduler={IN_JOB}", option="team.sqlite") is None


@pytest.fixture
def with_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked for, and nothing of it is used."""
    module = types.ModuleType("psycopg")
    module.__spec__ = importlib.machinery.ModuleSpec("psycopg", None)
    monkeypatch.setitem(sys.modules, "psycopg", module)


@needs_sqlalchemy
@pytest.mark.parametrize(
    ("history", "words"),
    [
        ("postgresql://me:geheim@host:port/db", "not a URL that SQLAlchemy reads"),
        ("postgresql://me:s3c@geheim@host/db", "write %40"),
        ("postgresql://[::1/geheim", "not a URL that SQLAlchemy reads"),
        ("postgresql+psycopg2://me:geheim@host/db", "write postgresql://"),
        ("mysql://me:geheim@host/db", "mysql is not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("folder", "is a folder"),
        ("test_net.py/h.sqlite", "which is a file"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_address(
    tmp_path: Path, with_psycopg: None, way: str, history: str, words: str
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "test_net.py").touch()
    with pytest.raises(UsageError) as caught:
        request(tmp_path, **{way: history})
    told = str(caught.value)
    assert told.startswith(f"{WAYS[way]}: ")
    assert words in told
    assert "geheim" not in told


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sqlalchemy", "psycopg"):
        monkeypatch.setitem(sys.modules, name, None)


def test_without_the_extra_nothing_is_wished_where_nobody_asked(
    tmp_path: Path, without_extras: None
):
    assert request(tmp_path) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("history", "words"),
    [
        ("team.sqlite", "sqlalchemy is not installed; pip install 'pytest-dlperf[history]'"),
        (
            "postgresql://me:geheim@host/db",
            "sqlalchemy is not installed; pip install 'pytest-dlperf[postgresql]'",
        ),
        ("mysql://me:geheim@host/db", "mysql is not supported; give a file, or postgresql://"),
    ],
)
def test_without_the_extra_it_is_an_error_to_ask_by_name(
    tmp_path: Path, without_extras: None, way: str, history: str, words: str
):
    with pytest.raises(UsageError) as caught:
        request(tmp_path, **{way: history})
    assert str(caught.value).startswith(f"{WAYS[way]}: {words}")
    assert "geheim" not in str(caught.value)
