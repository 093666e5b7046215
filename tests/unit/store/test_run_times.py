"""How long runs took here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.store.history import notes


def case(iterations: int) -> Case:
    return Case(
        suite="net",
        framework="torch",
        workload="w:build",
        precision="fp32",
        batch_size_per_device=4,
        layout=Layout.parse("1n1c"),
        protocol=Protocol(iterations=iterations),
    )


def test_they_are_those_of_a_case_its_iterations_and_a_machine_class(tmp_path: Path) -> None:
    notes.note_run_time(tmp_path, case(150), "small", 10.0)
    notes.note_run_time(tmp_path, case(300), "small", 20.0)
    notes.note_run_time(tmp_path, case(150), "large", 1.0)
    notes.note_run_time(tmp_path, case(150), "large", 2.0)
    known = notes.read_run_times(tmp_path)
    assert known[notes.run_key(case(150), "small")] == 10.0
    assert known[notes.run_key(case(300), "small")] == 20.0
    assert known[notes.run_key(case(150), "large")] == 2.0
    assert notes.run_key(case(300), "large") not in known


def test_a_run_in_a_pair_has_a_time_of_its_own_by_the_window_asked_for(tmp_path: Path) -> None:
    longer = Protocol(iterations=1050, lengthened_from=150)
    notes.note_run_time(tmp_path, case(150), "small", 10.0)
    notes.note_run_time(tmp_path, replace(case(150), protocol=longer), "small", 20.0, in_pair=True)
    known = notes.read_run_times(tmp_path)
    assert known[notes.run_key(case(150), "small")] == 10.0
    assert known[notes.run_key(case(150), "small", in_pair=True)] == 20.0
    of_others = [
        notes.run_times_of_others(known, case(150), "small", in_pair=in_pair)
        for in_pair in (False, True)
    ]
    assert [[seconds for _, seconds in found] for found in of_others] == [[10.0], [20.0]]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "3"}', '{"a": -1}', '{"a": NaN}'])
def test_what_is_no_time_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "run_times.json").write_text(text)
    assert notes.read_run_times(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DlperfError, match="cannot be written"):
        notes.note_run_time(tmp_path / "file", case(150), "small", 1.0)
