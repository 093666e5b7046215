"""What names a history: what is none is refused, and no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.store.history.address import parse_address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:geheim@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql+psycopg://me@host/db?password=geheim&sslmode=require",
            "postgresql://me@host/db?password=***&sslmode=require",
        ),
        ("postgres://me:gehe%40im@host/db", "postgresql://me:***@host/db"),
        ("sqlite:///sub/h.sqlite", "{here}/sub/h.sqlite"),
        ("sub/h.sqlite", "{here}/sub/h.sqlite"),
    ],
)
def test_a_password_is_never_shown(text: str, shown: str, tmp_path: Path):
    address = parse_address(text, folder=tmp_path, what="test")
    assert address.shown == shown.format(here=tmp_path)
    assert "geheim" not in repr(address)
    if "geheim" in text:
        assert address.without_secrets("no geheim here") == "no *** here"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://me:geheim@host/db", "mysql is not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///h.sqlite?key=geheim", "nothing more here"),
        ("sqlite+aiosqlite:///h.sqlite", "write sqlite://"),
        ("postgresql+psycopg2://me:geheim@host/db", "write postgresql://"),
        ("postgresql://[::1/geheim", "not a URL that SQLAlchemy reads"),
        ("postgresql://me:s3c@geheim@host:1/db", "write %40"),
        ("postgresql://me:s3c@gehe/im@host/db", "write %40"),
        ("folder", "folder is a folder"),
        ("sqlite:///folder", "folder is a folder"),
        ("file/sub/h.sqlite", "is below .*, which is a file"),
        ("postgresql://me:geheim@host:port/db", "not a URL that SQLAlchemy reads"),
    ],
)
def test_what_is_no_address_is_refused(text: str, words: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=words) as caught:
        parse_address(text, folder=tmp_path, what="--history")
    assert "geheim" not in str(caught.value)
