"""A database that is away: outcomes wait in files, and are sent once, in order."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import HistoryError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.database import reading
from pytest_dlperf.store.history.query import series_of
from pytest_dlperf.store.history.unsent import Journal, folder_in, send_unsent
from tests.helpers.history_builders import days, outcome


def journal(
    folder: Path, address: Address, name: str, outcomes: Any, *, ended: bool = True
) -> Journal:
    made = Journal(folder, session=name, mode="gate", history=address.shown)
    for one in outcomes:
        made.add(one)
    if ended:
        made.end(sent=False)
    return made


def times(address: Address) -> list[str]:
    with reading(address) as connection:
        return [point.time[:10] for series in series_of(connection) for point in series.points]


def test_sessions_are_sent_once_and_their_files_are_gone(tmp_path: Path, address: Address):
    first, second, third = days(3)
    journal(tmp_path, address, "20260902-2", [third])
    journal(tmp_path, address, "20260901-1", [first, second])
    sent = send_unsent(tmp_path, address)
    assert (sent.sessions, sent.outcomes) == (2, 3)
    assert list(folder_in(tmp_path).iterdir()) == []
    assert send_unsent(tmp_path, address).sessions == 0
    assert times(address) == ["2026-09-01", "2026-09-02", "2026-09-03"]


def test_what_is_sent_again_after_a_kill_counts_once(tmp_path: Path, address: Address):
    """The history was written, and the file not yet removed."""
    for _ in range(2):
        journal(tmp_path, address, "20260901-1", days(2))
        send_unsent(tmp_path, address)
    assert times(address) == ["2026-09-01", "2026-09-02"]


def test_a_session_that_lives_is_left_alone(tmp_path: Path, file_address: Address):
    alive = journal(tmp_path, file_address, "20260901-1", days(2), ended=False)
    assert send_unsent(tmp_path, file_address).sessions == 0
    assert alive.path.exists()
    alive.end(sent=False)
    assert send_unsent(tmp_path, file_address).sessions == 1


def test_half_a_line_of_a_killed_session_is_no_outcome(tmp_path: Path, file_address: Address):
    path = journal(tmp_path, file_address, "20260901-1", days(3)).path
    text = path.read_text()
    path.write_text(text[: len(text) - 100])
    assert send_unsent(tmp_path, file_address).outcomes == 2


def test_a_database_that_is_away_loses_nothing(tmp_path: Path):
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    url = f"postgresql://me:geheim@/db?host={tmp_path}"
    address = parse_address(url, folder=tmp_path, what="test")
    paths = [journal(tmp_path, address, f"2026090{day}-1", days(2)).path for day in (1, 2)]
    before = [path.read_bytes() for path in paths]
    with pytest.raises(HistoryError):
        send_unsent(tmp_path, address)
    assert [path.read_bytes() for path in paths] == before
    assert b"geheim" not in before[0]


def test_the_database_comes_back(tmp_path: Path, cluster: Any):
    address = parse_address(cluster.make_database("away"), folder=tmp_path, what="test")
    cluster.stop()
    try:
        journal(tmp_path, address, "20260901-1", days(2))
        with pytest.raises(HistoryError, match="No such file or directory"):
            send_unsent(tmp_path, address)
    finally:
        cluster.start()
    assert send_unsent(tmp_path, address).outcomes == 2
    assert times(address) == ["2026-09-01", "2026-09-02"]


def test_another_history_gets_nothing_of_it(tmp_path: Path, file_address: Address):
    other = parse_address("other.sqlite", folder=tmp_path, what="test")
    path = journal(tmp_path, other, "20260901-1", days(2)).path
    sent = send_unsent(tmp_path, file_address)
    assert sent.other_histories == {other.shown: 1}
    assert path.exists()
    assert send_unsent(tmp_path, other).sessions == 1


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"format": 2}], "format 2, this version reads 1"),
        (["{"], "not an unsent session"),
        ([[]], "does not begin as these files do"),
        ([{"format": 1, "session": "s"}], "its head has format, session"),
    ],
)
def test_a_file_that_cannot_be_read_stays_and_keeps_no_other_back(
    lines: list[Any], words: str, tmp_path: Path, file_address: Address
):
    journal(tmp_path, file_address, "20260902-1", days(2))
    broken = folder_in(tmp_path) / "20260901-1.jsonl"
    broken.write_text("".join(f"{x if x == '{' else json.dumps(x)}\n" for x in lines))
    sent = send_unsent(tmp_path, file_address)
    assert sent.outcomes == 2
    [sentence] = sent.broken
    assert words in sentence
    assert str(broken) in sentence
    assert [path.name for path in folder_in(tmp_path).iterdir()] == [broken.name]


def test_a_file_that_cannot_be_removed_is_reported_and_counts_once(
    tmp_path: Path, file_address: Address, monkeypatch: pytest.MonkeyPatch
):
    def read_only(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    journal(tmp_path, file_address, "20260901-1", days(2))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        sent = send_unsent(tmp_path, file_address)
    assert "sent, and cannot be removed (Permission denied)" in sent.broken[0]
    assert send_unsent(tmp_path, file_address).outcomes == 0
    assert len(times(file_address)) == 2


def sent_by_another(folder: Path, address: Address, go: Any, told: Any) -> None:
    go.wait()
    told.put(send_unsent(folder, address).outcomes)


def test_two_senders_send_each_session_once(tmp_path: Path, address: Address):
    spawn = multiprocessing.get_context("spawn")
    go, told = spawn.Barrier(2), spawn.Queue()
    outcomes: list[Outcome] = [outcome(day) for day in range(10)]
    for number, one in enumerate(outcomes):
        journal(tmp_path, address, f"2026090{number}-1", [one])
    senders = [
        spawn.Process(target=sent_by_another, args=(tmp_path, address, go, told)) for _ in "12"
    ]
    for sender in senders:
        sender.start()
    counts = [told.get(timeout=60) for _ in senders]
    for sender in senders:
        sender.join()
    assert sum(counts) == 10
    assert len(times(address)) == 10
    assert list(folder_in(tmp_path).iterdir()) == []


def test_a_file_that_could_not_be_locked_begins_again(
    tmp_path: Path, file_address: Address, monkeypatch: pytest.MonkeyPatch
):
    def no_locks(*_: Any) -> None:
        raise OSError(37, "No locks available")

    first, second = days(2)
    made = Journal(tmp_path, session="20260901-1", mode="gate", history=file_address.shown)
    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", no_locks)
        with pytest.raises(OSError, match="No locks available"):
            made.add(first)
    made.add(second)
    made.end(sent=False)
    sent = send_unsent(tmp_path, file_address)
    assert (sent.outcomes, sent.broken) == (1, [])
