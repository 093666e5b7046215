"""Outcomes in SQLite and in a real PostgreSQL: whole, once, and nothing half."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")

import sqlalchemy as sa

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.command_results import JudgedPoint
from pytest_dlperf.core.errors import HistoryError
from pytest_dlperf.core.outcome import Against, Outcome
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.store.history import append as appending
from pytest_dlperf.store.history import database, tables
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append
from pytest_dlperf.store.history.database import reading, writing
from pytest_dlperf.store.history.query import (
    judged_points,
    series_of,
    stored_cases,
    stored_software,
    whole_outcomes,
)
from tests.helpers.history_builders import case, days, outcome
from tests.helpers.report_builders import COMMIT, ENVIRONMENT, confirmed, decided, unmeasured

SPAWN = multiprocessing.get_context("spawn")


def stored(address: Address) -> int:
    with reading(address) as connection:
        return sum(one.outcomes for one in stored_cases(connection))


def test_what_was_appended_is_read_back_whole(address: Address):
    one, other = outcome(1, against=None), outcome(2, of=case(layout="1n1g"), dirty=True)
    never = unmeasured(case(), Verdict.ERROR, "no such module")
    assert append(address, "s", [one, other, never], mode="observe") == 3
    with reading(address) as connection:
        assert whole_outcomes(connection, [3, 1, 2]) == (never, one, other)
        [first, failed] = series_of(connection, case().id)
        with pytest.raises(HistoryError, match="outcome 4 is not in this history"):
            whole_outcomes(connection, [1, 4])
    [point] = first.points
    assert (point.time, point.commit) == (one.time, one.commit)
    assert (point.throughput, point.runs, point.mode) == (101.0, 3, "observe")
    assert (point.peak_memory_bytes, point.verdict) == (1024, "passed")
    [point] = failed.points
    assert (point.throughput, point.left_out) == (None, "not measured")


def test_what_an_outcome_was_judged_by_is_read_without_the_rest(file_address: Address):
    address = file_address
    by_stored = Comparison(
        now=101.0, before=103.0, change=-0.02, interval=(-0.03, -0.01), tolerance=0.05
    )
    known = Known(issue="#1", until="2027-01-31", change=-0.04)
    judgement = Judgement(verdict=Verdict.PASSED, reason="so it is", throughput=by_stored)
    plain = replace(outcome(1, of=case(known=known)), judgement=judgement)
    paired = outcome(2, judgement=judgement, against=Against(name="main", kind="ref"))
    never = unmeasured(case(), Verdict.ERROR, "no such module")
    by_pairs = confirmed(outcome(3, judgement=judgement))
    append(address, "s", [plain, paired, never, by_pairs])
    with reading(address) as connection:
        points = list(judged_points(connection, [4, 1, 2, 3]))
        with pytest.raises(HistoryError, match="outcome 9 is not in this history"):
            list(judged_points(connection, [9]))
    last, first, second, third = points
    assert first == JudgedPoint(
        number=1, reason="so it is", known_slowdown=known, runs=(100.0, 101.0, 102.0),
        level=103.0, tolerance=0.05, interval=(-0.03, -0.01),
    )  # fmt: skip
    # The rate of another arm is no stored level
    assert (second.runs, second.level, second.interval) == (first.runs, None, None)
    assert (third.reason, third.runs, third.level) == ("no such module", (), None)
    # What stored sessions said, before pairs decided
    assert (last.level, last.interval, last.reason) == (103.0, (-0.03, -0.01), "of the pairs")


@pytest.mark.parametrize("broken", [b"no zlib", zlib.compress(b"[]"), zlib.compress(b"{}")])
def test_a_whole_outcome_that_cannot_be_read_is_named(file_address: Address, broken: bytes):
    append(file_address, "s", [outcome(1)])
    with writing(file_address) as connection:
        connection.execute(tables.WHOLE.update().values(json=broken))
    with reading(file_address) as connection, pytest.raises(HistoryError, match="outcome 1 of"):
        list(judged_points(connection, [1]))


def test_a_session_that_is_sent_twice_counts_once(address: Address):
    outcomes = [*days(3), outcome(9)]
    assert append(address, "s", outcomes[:3]) == 3
    assert append(address, "s", outcomes) == 1
    # A results file of the same session is imported under another name
    assert append(address, "import-1", outcomes) == 0
    assert stored(address) == 4


def test_series_are_apart_by_node_machine_and_conditions(address: Address):
    elsewhere = replace(ENVIRONMENT, machine_class="8x-h100")
    append(
        address,
        "s",
        [
            *days(4),
            *days(3, node="node2"),
            outcome(1, environment=elsewhere),
            *days(2, seed=8, conditions_={"window": (10, 30)}),
        ],
    )
    with reading(address) as connection:
        found = series_of(connection)
        only = series_of(connection, node="node2")
        late = series_of(connection, machine_class="8x-v100-sxm2-32gb", since="2026-09-03")
    assert [(s.machine_class, s.node, dict(s.conditions), len(s.points)) for s in found] == [
        ("8x-h100", "node1", {}, 1),
        ("8x-v100-sxm2-32gb", "node1", {"window": "[10, 30]"}, 2),
        ("8x-v100-sxm2-32gb", "node1", {"window": "[50, 150]"}, 4),
        ("8x-v100-sxm2-32gb", "node2", {}, 3),
    ]
    assert [len(s.points) for s in only] == [3]
    assert [(s.node, len(s.points)) for s in late] == [("node1", 2), ("node2", 1)]


def test_outcomes_not_used_for_levels_are_marked_and_software_that_changed_is_named(
    address: Address,
):
    injected = outcome(1, inject=0.05)
    newer = outcome(3, software={"torch": "2.14.0"})
    disturbed = outcome(4, software={"torch": "2.14.0"})
    assert disturbed.measurement is not None
    run = replace(disturbed.measurement.runs[0], disturbed="others used the CPUs")
    measurement = replace(disturbed.measurement, runs=(run,))
    append(
        address,
        "s",
        [
            outcome(0),
            injected,
            outcome(2, dirty=True),
            newer,
            replace(disturbed, measurement=measurement),
            # A session that goes on from these runs adds them as its own
            replace(outcome(5, software={"torch": "2.14.0"}), interrupted=True),
        ],
    )
    with reading(address) as connection:
        [series] = series_of(connection)
        [counted] = series_of(connection, dirty=True)
    assert [point.left_out for point in series.points] == [
        "", "injected", "modified files", "", "disturbed", "not measured",
    ]  # fmt: skip
    assert len(counted.level_points) == 3
    assert [point.software_changes for point in series.points] == [
        (), (), (), ("torch: 2.13.0 -> 2.14.0",), (), (),
    ]  # fmt: skip


def test_packages_that_changed_are_named_and_each_list_is_stored_once(address: Address):
    def installed(day: int, version: str) -> Outcome:
        environment = replace(ENVIRONMENT, packages={"numpy": version, "torch": "2.13.0"})
        return outcome(day, environment=environment)

    append(address, "s", [installed(0, "2.1"), installed(1, "2.1"), installed(2, "2.2")])
    with reading(address) as connection:
        [series] = series_of(connection)
        last = series.points[2]
        [found] = whole_outcomes(connection, [last.number])
        software = stored_software(connection, series.case_id, last)
        lists = connection.execute(sa.select(tables.SOFTWARE.c.versions)).scalars().all()
    assert [point.software_changes for point in series.points] == [
        (), (), ("package numpy: 2.1 -> 2.2",),
    ]  # fmt: skip
    assert software["package numpy"] == "2.2"
    assert len(lists) == 2
    assert found.environment is not None
    assert found.environment.packages == {}


def test_names_that_no_database_likes_are_stored(address: Address):
    """A node's name is what a rank's host says, and an arm's what somebody typed."""
    odd = "节点\x00\ud800\x1b[31m'\u202e;DROP TABLE dlperf_outcome;--%s"
    one = outcome(1, node=odd, software={odd: odd}, commit=100 * odd)
    append(address, "s", [one, outcome(2, node=odd)])
    with reading(address) as connection:
        [series] = series_of(connection)
        assert whole_outcomes(connection, [1]) == (one,)
    assert series.node == odd.replace("\x00", "\\x00").replace("\ud800", "\\ud800")
    assert len(series.points[0].commit) == 100
    assert len(series.points[1].software_changes) == 1


def test_a_newer_history_is_refused_and_left_as_it_is(address: Address):
    append(address, "s", days(2))
    with writing(address) as connection:
        connection.execute(tables.SCHEMA.update().values(version=tables.VERSION + 1))
    before = address.file.read_bytes() if address.file else b""
    for refused in (reading, writing):
        version = f"is of version {tables.VERSION + 1}, and this pytest-dlperf knows"
        told = pytest.raises(HistoryError, match=version)
        with told, refused(address):
            pytest.fail("it was opened")
    if address.file is not None:
        assert address.file.read_bytes() == before


def upgrade(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Let this be a pytest-dlperf whose tables are of the next version."""
    monkeypatch.setattr(tables, "VERSION", tables.VERSION + 1)
    monkeypatch.setattr(database, "VERSION", tables.VERSION)
    monkeypatch.setitem(tables.UPGRADES, tables.VERSION - 1, statements)


def columns(address: Address) -> tuple[int, set[str]]:
    with writing(address) as connection:
        names = {one["name"] for one in sa.inspect(connection).get_columns("dlperf_outcome")}
        return connection.execute(sa.select(tables.SCHEMA.c.version)).scalar_one(), names


def test_an_older_history_is_upgraded_when_it_is_opened(
    address: Address, monkeypatch: pytest.MonkeyPatch
):
    append(address, "s", days(3))
    upgrade(
        monkeypatch,
        "ALTER TABLE dlperf_outcome ADD COLUMN joules double precision",
        "UPDATE dlperf_outcome SET joules = 2 * throughput",
    )
    with reading(address) as connection:
        query = sa.text("SELECT count(*) FROM dlperf_outcome WHERE joules > 1000")
        assert connection.execute(query).scalar_one() == 3
        assert len(series_of(connection)[0].points) == 3
    version, names = columns(address)
    assert version == tables.VERSION
    assert "joules" in names


def test_a_history_of_the_first_version_gets_the_pairs_of_later_outcomes(address: Address):
    append(address, "s", days(2))
    with writing(address) as connection:
        for name in ("confirmed_against", "pairs_verdict", "pairs", "code"):
            connection.execute(sa.text(f"ALTER TABLE dlperf_outcome DROP COLUMN {name}"))
        connection.execute(tables.SCHEMA.update().values(version=1))
    append(address, "t", [confirmed(outcome(2))])
    with reading(address) as connection:
        [series] = series_of(connection)
        assert whole_outcomes(connection, [3]) == (confirmed(outcome(2)),)
    assert [point.confirmed for point in series.points] == [
        "",
        "",
        "passed in 3 pairs with 1a2b3c4",
    ]
    last = series.points[-1]
    assert (last.confirmed_against, last.pairs_verdict, last.pairs) == (COMMIT, "passed", 3)


def test_a_history_of_the_second_version_gets_the_codes_of_later_outcomes(address: Address):
    append(address, "s", [decided(outcome(0))])
    with writing(address) as connection:
        connection.execute(sa.text("ALTER TABLE dlperf_outcome DROP COLUMN code"))
        connection.execute(tables.SCHEMA.update().values(version=2))
    append(address, "t", [decided(outcome(1))])
    with reading(address) as connection:
        [series] = series_of(connection)
    assert [point.code for point in series.points] == ["", "worse:peak_memory"]


def test_an_upgrade_that_fails_changes_nothing(address: Address, monkeypatch: pytest.MonkeyPatch):
    append(address, "s", days(3))
    with monkeypatch.context() as newer:
        upgrade(
            newer,
            "ALTER TABLE dlperf_outcome ADD COLUMN joules double precision",
            "UPDATE dlperf_outcome SET no_such_column = 1",
        )
        with pytest.raises(HistoryError, match="no_such_column"):
            append(address, "t", [outcome(9)])
    version, names = columns(address)
    assert version == tables.VERSION
    assert "joules" not in names
    assert stored(address) == 3


def appended_by_another(address: Address, name: str, outcomes: list[Outcome], go: Any) -> None:
    go.wait()
    for number, one in enumerate(outcomes):
        append(address, f"{name}{number}", [one])


def test_two_writers_at_once_lose_nothing(address: Address):
    go = SPAWN.Barrier(2)
    both = [list(days(8, node=node)) for node in ("node1", "node2")]
    both[1].append(both[0][0])  # and one outcome that both of them send
    writers = [
        SPAWN.Process(target=appended_by_another, args=(address, str(i), outcomes, go))
        for i, outcomes in enumerate(both)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert stored(address) == 16
    with reading(address) as connection:
        numbers = [p.number for series in series_of(connection) for p in series.points]
        assert sorted(numbers) == list(range(1, 17))
        assert len(whole_outcomes(connection, numbers)) == 16


def killed_while_it_writes(address: Address, outcomes: list[Outcome], told: Any) -> None:
    """Append, and be killed after the rows of the outcomes went in, before the end."""
    real = appending.append_records

    def written_and_waiting(*arguments: Any) -> int:
        written = real(*arguments)
        told.set()
        time.sleep(60)
        return written

    appending.append_records = written_and_waiting
    append(address, "killed", outcomes)


def test_a_writer_that_is_killed_leaves_a_whole_history(address: Address):
    append(address, "s", days(2))
    told = SPAWN.Event()
    # With a file so many that SQLite writes pages before the transaction ends
    count = 40 if address.file is None else 800
    many = list(days(count, node="node2"))
    writer = SPAWN.Process(target=killed_while_it_writes, args=(address, many, told))
    writer.start()
    assert told.wait(60)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    assert stored(address) == 2
    if address.file is not None:
        with closing(sqlite3.connect(address.file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert append(address, "killed", many) == count
    assert stored(address) == 2 + count


def test_a_file_that_is_no_history_says_so(tmp_path: Path):
    (tmp_path / "h.sqlite").write_text("not a database, and long enough to be looked at" * 30)
    address = parse_address("h.sqlite", folder=tmp_path, what="test")
    with pytest.raises(HistoryError, match=r"h\.sqlite: file is not a database"):
        append(address, "s", days(1))


def test_a_history_that_is_not_there_is_not_made_by_reading(file_address: Address):
    with pytest.raises(HistoryError, match="there is no history yet"), reading(file_address):
        pytest.fail("it was opened")
    assert file_address.file is not None
    assert not file_address.file.exists()


def test_a_database_without_a_history_says_so(cluster: Any, tmp_path: Path):
    address = parse_address(cluster.make_database("empty"), folder=tmp_path, what="test")
    told = pytest.raises(HistoryError, match="there is no history in this database")
    with told, reading(address):
        pytest.fail("it was opened")


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path):
    address = parse_address("file/h.sqlite", folder=tmp_path, what="test")
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be made"):
        append(address, "s", days(1))


def test_a_database_that_is_away_says_so_without_its_password(tmp_path: Path):
    url = f"postgresql://me:geheim@/db?host={tmp_path}"
    address = parse_address(url, folder=tmp_path, what="test")
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    with pytest.raises(HistoryError, match=r"postgresql://me:\*\*\*@/db.*failed") as caught:
        append(address, "s", days(1))
    assert "geheim" not in str(caught.value)
