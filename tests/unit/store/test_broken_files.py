"""Each broken file is an error that names the file and the field, and says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.baseline import ReplacedLevel, Session, Source
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import CASE_ID, MACHINE, PLACE, baseline, session

SPEEDUP = {"parent_runs": (20.0,), "speedup": 1.8}


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    store = BaselineStore(tmp_path)
    store.write(
        baseline(
            session(35.5, 35.25, peak_memory_bytes=(8.0, 8.0), canary={"matmul": 3.0}, **SPEEDUP),
            history=(
                ReplacedLevel(
                    replaced="2026-11-20T00:00:00Z",
                    reason="",
                    unit="samples",
                    sessions=(session(second=1),),
                ),
            ),
            tolerance=0.03,
        )
    )
    return store


def path_of(store: BaselineStore) -> Path:
    return store.root / MACHINE / "tsm" / f"{CASE_ID}.json"


def error_of(store: BaselineStore) -> str:
    with pytest.raises(BaselineError) as caught:
        store.find(*PLACE)
    with pytest.raises(BaselineError):
        list(store.all())
    message = str(caught.value)
    assert message.startswith(f"{path_of(store)}: ")
    assert "restore the file from version control" in message
    return message.removeprefix(f"{path_of(store)}: ")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "line 1, column 1: not JSON"),
        (b'{"format": 1,', "line 1, column 14: not JSON"),
        (b'{\n<<<<<<< HEAD\n"format": 1}', "line 2, column 1: not JSON"),
        (b'{"unit": "\xff"}', "byte 10: not UTF-8"),
        (b"[]", "the whole file: not a JSON object"),
        (b"1" * 5000, "the whole file: not JSON"),
        (b"[" * 100_000, "the whole file: not JSON"),
        (b'{"format": 1, "unit": "a", "unit": "b"}', "unit: appears twice"),
        (b"{}", "format: None"),
        (b'{"format": 2}', "format: 2, and this version reads 1; use the version"),
        (b'{"format": true}', "format: True"),
        (b'{"format": "1"}', "format: '1'"),
    ],
)
def test_what_is_no_baseline_at_all(store, content, field):
    path_of(store).write_bytes(content)
    assert error_of(store).startswith(field)


#: Where in the file, what is put there, and how the message begins.
EDITS: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("case_id",), "tsm.tiny-torch-fp32-bs2-1n4c", "case_id: 'tsm.tiny-torch-fp32-bs2-1n4c', but"),
    (("suite",), "arcface", "suite: 'arcface', but the path of the file says 'tsm'"),
    (("machine_class",), "8x-other", "machine_class: '8x-other', but the path"),
    (("source", "kind"), "published", "source.kind: 'published', but the path"),
    (("source", "kind"), "guessed", "source.kind: 'guessed', but the path"),
    (("source", "page"), "7", "source: unknown field 'page'"),
    (("unit",), " ", "unit: empty"),
    (("unit",), "images", "conditions.unit: 'samples', but unit is 'images'"),
    (("unit",), 3, "unit: expected str, found 3"),
    (("unit",), None, "unit: expected str, found None"),
    (("conditions",), None, "conditions: null"),
    (("conditions", "window"), [50], "conditions.window: expected 2 values, found 1"),
    (("conditions", "window"), [150, 50], "conditions.window: 150 to 50 holds no iteration"),
    (("conditions", "world_size"), 0, "conditions.world_size: 0 is below 1"),
    (("conditions", "world_size"), 2.5, "conditions.world_size: expected int, found 2.5"),
    (("conditions", "host_sharing"), 0, "conditions.host_sharing: expected bool, found 0"),
    (("tolerance",), 3, "tolerance: 3.0 must be a share"),
    (("tolerance",), -0.1, "tolerance: -0.1 must be a share"),
    (("tolerance",), "3%", "tolerance: expected float, found '3%'"),
    (("sessions",), [], "sessions: empty"),
    (("sessions",), {}, "sessions: expected a list, found {}"),
    (("sessions", 0), [], "sessions[0]: expected an object, found []"),
    (("sessions", 0, "time"), "", "sessions[0].time: '' is not a time"),
    (("sessions", 0, "time"), "yesterday", "sessions[0].time: 'yesterday' is not a time"),
    (("sessions", 0, "runs"), [], "sessions[0].runs: empty"),
    (("sessions", 0, "runs"), 35.5, "sessions[0].runs: expected a list, found 35.5"),
    (("sessions", 0, "runs", 1), 0, "sessions[0].runs[1]: 0.0 must be finite and above 0"),
    (("sessions", 0, "runs", 1), -1.0, "sessions[0].runs[1]: -1.0 must be finite"),
    (("sessions", 0, "runs", 1), float("nan"), "sessions[0].runs[1]: nan is not a finite number"),
    (("sessions", 0, "runs", 1), float("inf"), "sessions[0].runs[1]: inf is not a finite number"),
    (("sessions", 0, "runs", 1), 10**400, "sessions[0].runs[1]: the number is too large"),
    (("sessions", 0, "runs", 1), True, "sessions[0].runs[1]: expected float, found True"),
    (("sessions", 0, "runs", 1), "35.5", "sessions[0].runs[1]: expected float, found '35.5'"),
    (("sessions", 0, "speedup"), 0, "sessions[0].speedup: 0.0 must be above 0"),
    (("sessions", 0, "speedup"), None, "sessions[0].speedup: null, although parent_runs"),
    (("sessions", 0, "parent_runs"), [], "sessions[0].parent_runs: empty, although a speedup"),
    (("sessions", 0, "parent_runs", 0), -2, "sessions[0].parent_runs[0]: -2.0 must be"),
    (("sessions", 0, "peak_memory_bytes"), [8], "sessions[0].peak_memory_bytes: 1 values for 2"),
    (("sessions", 0, "peak_memory_bytes", 1), 0, "sessions[0].peak_memory_bytes[1]: 0.0 must be"),
    (("sessions", 0, "canary", "matmul"), 0, "sessions[0].canary[matmul]: 0.0 must be finite"),
    (
        ("sessions", 0, "canary_by_node"),
        {"n1": {"matmul": -1}},
        "sessions[0].canary_by_node.n1[matmul]: -1.0 must be finite",
    ),
    (("sessions", 0, "estimates"), {"m": [1]}, "sessions[0].estimates.m: 1 values for 2 runs"),
    (("sessions", 0, "estimates"), {"m": [1, 0]}, "sessions[0].estimates.m[1]: 0.0 must be"),
    (("sessions", 0, "loss_fall"), float("nan"), "sessions[0].loss_fall: nan is not a finite"),
    (("sessions", 0, "speed"), 3, "sessions[0]: unknown field 'speed'"),
    (("history", 0, "replaced"), "", "history[0].replaced: '' is not a time"),
    (("history", 0, "sessions"), [], "history[0].sessions: empty"),
    (("history", 0, "sessions", 0, "runs", 0), 0, "history[0].sessions[0].runs[0]: 0.0 must be"),
    (("facts",), [], "facts: expected an object, found []"),
    (("surprise",), 1, "Baseline: unknown field 'surprise'"),
]


@pytest.mark.parametrize(
    ("where", "value", "message"), EDITS, ids=[message[:48] for _, _, message in EDITS]
)
def test_a_file_edited_into_nonsense(store, where, value, message):
    values = json.loads(path_of(store).read_text(encoding="utf-8"))
    inner = values
    for part in where[:-1]:
        inner = inner[part]
    inner[where[-1]] = value
    path_of(store).write_text(json.dumps(values), encoding="utf-8")
    assert error_of(store).startswith(message)


@pytest.mark.parametrize(
    ("where", "first"), [("sessions[1]", "sessions[0]"), ("history[0].sessions[1]", "sessions[0]")]
)
def test_a_session_that_appears_twice(store, where, first):
    values = json.loads(path_of(store).read_text(encoding="utf-8"))
    twin = {**values["sessions"][0], "reason": "of the other branch"}
    of_level = values if where.startswith("sessions") else values["history"][0]
    of_level["sessions"].append(twin)
    path_of(store).write_text(json.dumps(values), encoding="utf-8")
    says = f"{where}: the session of 2026-11-21T04:02:00Z appears twice, see {first};"
    assert error_of(store).startswith(says)
    # Sessions of one second on two hosts are two
    twin["runs"] = [35.5, 35.26]
    path_of(store).write_text(json.dumps(values), encoding="utf-8")
    assert store.find(*PLACE) is not None


@pytest.mark.parametrize("field", ["case_id", "unit", "sessions", "conditions"])
def test_a_field_that_is_missing(store, field):
    values = json.loads(path_of(store).read_text(encoding="utf-8"))
    del values[field]
    path_of(store).write_text(json.dumps(values), encoding="utf-8")
    assert error_of(store).startswith(f"{field}: missing")


def test_a_case_of_another_suite(tmp_path):
    path = tmp_path / MACHINE / "tsm" / "arcface-torch-fp32-bs2-1n2c.json"
    with pytest.raises(
        BaselineError, match=r"'arcface-torch-fp32-bs2-1n2c' does not belong to the"
    ):
        BaselineStore(tmp_path).write(baseline(case_id="arcface-torch-fp32-bs2-1n2c"))
    assert not path.exists()


def test_nonsense_is_not_written_either_and_the_old_file_stays(store):
    old = path_of(store).read_bytes()
    for bad in (session(35.5, float("nan")), session(0.0), Session(time="", runs=(1.0,))):
        with pytest.raises(BaselineError, match=r"not written: sessions\[0\]\."):
            store.write(baseline(bad))
    assert path_of(store).read_bytes() == old


def test_published_numbers_need_neither_conditions_nor_time_nor_parents(tmp_path):
    store = BaselineStore(tmp_path)
    number = baseline(
        Session(time="", runs=(1.5,), speedup=3.87),
        conditions=None,
        source=Source(kind="published"),
    )
    store.write(number)
    assert store.published(CASE_ID, "tsm") == (number,)


def test_a_broken_published_file_is_named_and_not_to_be_measured_again(tmp_path):
    path = tmp_path / MACHINE / "tsm" / f"{CASE_ID}.published.json"
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        BaselineStore(tmp_path).published(CASE_ID, "tsm")
    assert str(caught.value).startswith(f"{path}: line 1")
    assert "--update-baselines" not in str(caught.value)


def test_update_does_not_write_over_a_broken_file(store):
    path_of(store).write_text("{", encoding="utf-8")
    with pytest.raises(BaselineError, match="not JSON"):
        store.update(*PLACE, lambda _: baseline())
    assert path_of(store).read_text(encoding="utf-8") == "{"
