from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.baseline import Baseline, ReplacedLevel, Session, Source
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import CASE_ID, MACHINE, PLACE, baseline, session


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def file_of(store: BaselineStore) -> Path:
    return store.root / MACHINE / "tsm" / f"{CASE_ID}.json"


def published(machine_class: str = MACHINE, **fields: Any) -> Baseline:
    return baseline(
        Session(time="", runs=(40.5,)),
        machine_class=machine_class,
        conditions=None,
        source=Source(kind="published", document="a report", table="its table"),
        **fields,
    )


def test_a_missing_folder_holds_nothing(store):
    assert store.find(*PLACE) is None
    assert store.published(CASE_ID, "tsm") == ()
    assert list(store.all()) == []
    assert not store.root.exists()


def test_written_and_found_again(store):
    store.write(baseline())
    assert store.find(*PLACE) == baseline()
    assert [entry.path for entry in store.all()] == [file_of(store)]


def test_the_text_of_a_file(store):
    store.write(baseline(session(35.5, 35.25, reason="größer: 吞吐")))
    text = file_of(store).read_text(encoding="utf-8")
    values = json.loads(text)
    assert values["format"] == 1
    assert list(values) == sorted(values)
    assert '\n      "runs": [35.5, 35.25],\n' in text
    assert '"reason": "größer: 吞吐"' in text
    assert text.endswith("}\n")


def test_a_reason_that_is_not_utf8_survives(store):
    reason = os.fsdecode(b"caf\xe9")
    store.write(baseline(session(reason=reason)))
    assert store.find(*PLACE).sessions[0].reason == reason


def test_published_numbers_are_beside_the_measured_and_are_found_over_all_machines(store):
    store.write(baseline())
    store.write(published("8x-b"))
    store.write(published("4x-a"))
    assert [b.machine_class for b in store.published(CASE_ID, "tsm")] == ["4x-a", "8x-b"]
    assert store.published("tsm-torch-fp32-bs2-1n8g", "tsm") == ()
    assert store.find("8x-b", "tsm", CASE_ID) is None
    assert len(list(store.all())) == 3


def test_other_files_and_folders_are_no_baselines(store):
    store.write(baseline())
    (store.root / "README.md").write_text("hello")
    (store.root / "my notes").mkdir()
    (store.root / MACHINE / "notes.json").write_text("{}")
    (store.root / MACHINE / "noise.json").write_text("written by a former version")
    file_of(store).with_name(f".{CASE_ID}.json.123.tmp").write_text("{")
    assert len(list(store.all())) == 1
    assert store.published(CASE_ID, "tsm") == ()


def test_delete_removes_the_measured_baseline_only(store):
    store.write(baseline())
    store.write(published())
    assert store.delete(*PLACE) == file_of(store)
    assert store.find(*PLACE) is None
    assert len(store.published(CASE_ID, "tsm")) == 1
    store.delete(*PLACE)  # twice is no error


def test_update_changes_what_is_stored(store):
    def add(before: Baseline | None) -> Baseline:
        sessions = before.sessions if before else ()
        return baseline(*sessions, session(second=len(sessions)))

    store.update(*PLACE, add)
    after = store.update(*PLACE, add)
    assert store.find(*PLACE) == after
    assert [s.time[-3:] for s in after.sessions] == ["00Z", "01Z"]


def test_all_are_as_they_are_now_whoever_wrote_them(store):
    other = BaselineStore(store.root)
    for writer in (store, other, store):
        for rates in ((35.5, 35.25), (36.5, 36.25), (37.5, 37.25)):  # of one size
            writer.write(baseline(session(*rates)))
            found = [
                entry.baseline.sessions[-1].runs for one in (store, other) for entry in one.all()
            ]
            assert found == [rates, rates]
    store.delete(*PLACE)
    assert list(other.all()) == []
    file_of(store).write_text("{", encoding="utf-8")
    for _ in range(2):
        assert len(other.readable()[1]) == 1


def test_update_that_raises_or_changes_nothing_writes_nothing(store):
    store.write(baseline())
    before = file_of(store).stat().st_mtime_ns

    def fail(_: Baseline | None) -> Baseline:
        raise KeyError("x")

    with pytest.raises(KeyError):
        store.update(*PLACE, fail)
    store.update(*PLACE, lambda found: found)
    assert file_of(store).stat().st_mtime_ns == before


def test_update_never_writes_published_numbers_or_another_case(store):
    with pytest.raises(BaselineError, match=r"source\.kind: 'published'"):
        store.update(*PLACE, lambda _: published())
    with pytest.raises(BaselineError, match=r"machine_class: '8x-b'"):
        store.update(*PLACE, lambda _: baseline(machine_class="8x-b"))
    assert list(store.all()) == []


def test_a_linked_folder_is_the_folder(store, tmp_path):
    store.root.mkdir()
    link = tmp_path / "link"
    link.symlink_to(store.root)
    BaselineStore(link).write(baseline())
    assert store.find(*PLACE) == baseline()


def test_files_follow_the_umask(store):
    before = os.umask(0o027)
    try:
        store.write(baseline())
    finally:
        os.umask(before)
    assert stat.S_IMODE(file_of(store).stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "place",
    [
        ("..", "tsm", CASE_ID),
        (MACHINE, "a/b", CASE_ID),
        (MACHINE, "tsm", ""),
        (MACHINE, "tsm", ".hidden"),
        (MACHINE, "tsm", "a\0b"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(store, place):
    with pytest.raises(BaselineError, match="cannot name a baseline"):
        store.find(*place)


def test_a_folder_whose_name_can_be_no_machine_class_is_named(store):
    folder = store.root / "my notes" / "tsm"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{}")
    with pytest.raises(BaselineError, match=r"my notes/tsm/x\.json: machine class 'my notes'"):
        list(store.all())


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    store = BaselineStore(tmp_path / "file" / "baselines")
    with pytest.raises(BaselineError, match=rf"file/baselines/{MACHINE}/tsm: cannot write"):
        store.write(baseline())


def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match=r"file/baselines.*cannot be read"):
        BaselineStore(tmp_path / "file" / "baselines").find(*PLACE)
    with pytest.raises(BaselineError, match=r"file: cannot be read"):
        list(BaselineStore(tmp_path / "file").all())


def test_a_full_disk_leaves_the_old_file_and_no_temporary(store, monkeypatch):
    store.write(baseline())
    old = file_of(store).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BaselineError, match="No space left on device"):
        store.write(baseline(session(1.5)))
    assert file_of(store).read_bytes() == old
    assert list(file_of(store).parent.iterdir()) == [file_of(store)]


TEXT = st.text(max_size=8)
RATE = st.floats(min_value=1e-9, max_value=1e12)
FACTS = st.dictionaries(TEXT, TEXT, max_size=2)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    runs = draw(st.lists(RATE, min_size=1, max_size=4))
    parents = draw(st.lists(RATE, max_size=2))
    with_memory = draw(st.booleans())
    return Session(
        time=draw(st.datetimes()).replace(microsecond=0).isoformat() + "Z",
        runs=tuple(runs),
        parent_runs=tuple(parents),
        speedup=draw(RATE) if parents else None,
        peak_memory_bytes=tuple(runs) if with_memory else (),
        canary=draw(st.dictionaries(TEXT, RATE, max_size=2)),
        node=draw(TEXT),
        software=draw(FACTS),
        machine=draw(FACTS),
        loss_fall=draw(st.none() | st.floats(-10, 10)),
        reason=draw(TEXT),
    )


LEVELS = st.builds(
    ReplacedLevel,
    replaced=st.just("2026-11-21T04:02:00Z"),
    reason=TEXT,
    sessions=st.lists(sessions(), min_size=1, max_size=2).map(tuple),
)


@pytest.mark.newest
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kept=st.lists(sessions(), min_size=1, max_size=3),
    history=st.lists(LEVELS, max_size=2),
    tolerance=st.none() | st.floats(0, 0.99),
    facts=st.dictionaries(TEXT, TEXT | st.floats(-1e9, 1e9), max_size=3),
)
def test_every_baseline_is_read_back_as_it_was_written(store, kept, history, tolerance, facts):
    numbers = count()

    def apart(drawn):
        return tuple(replace(one, commit=str(next(numbers))) for one in drawn)

    levels = tuple(replace(one, sessions=apart(one.sessions)) for one in history)
    written = baseline(*apart(kept), history=levels, tolerance=tolerance, facts=facts)
    store.write(written)
    assert store.find(*PLACE) == written
