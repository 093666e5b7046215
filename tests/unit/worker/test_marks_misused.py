"""Steps that are marked wrongly: within each other, twice, or without ``with``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.marked_program import program
from tests.helpers.simulated_gpu import records

NESTED = {
    "in_one_place": """
        for i in range(12):
            with step() as outer:
                with step(): pass
        """,
    "in_a_thread": """
        import threading
        def other():
            with step(): pass
        for i in range(12):
            with step():
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
        """,
    "by_hand": """
        step().__enter__()
        step().__enter__()
        """,
}


@pytest.mark.parametrize("how", NESTED)
def test_a_step_within_a_step_is_an_error_that_names_both(tmp_path: Path, how: str):
    """The rate was twice what was trained."""
    program(tmp_path, NESTED[how])
    found = records(tmp_path)
    [failure] = found["failure"]
    assert failure["code"] == "marked-twice"
    assert re.search(r"that of \S+:\d+ within that of \S+:\d+;", str(failure["message"]))
    assert "span" not in found


def test_a_step_that_ends_twice_is_an_error(tmp_path: Path):
    text = """
        for i in range(12):
            with step() as held: pass
            if i == 5: held.__exit__(None, None, None)
        """
    program(tmp_path, text)
    assert [failure["code"] for failure in records(tmp_path)["failure"]] == ["marked-twice"]


def test_a_step_that_is_called_and_never_begins_is_an_error_that_names_its_line(tmp_path: Path):
    program(tmp_path, "for _ in range(12): step()")
    [failure] = records(tmp_path)["failure"]
    assert failure["code"] == "step-not-begun"
    assert re.search(r"the step of \S+:\d+ never began: .*'with step\(\):'", failure["message"])
