"""Text from outside: nothing in it steers what shows it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.report.printable import (
    clipped,
    columns,
    one_line,
    padded,
    printable,
    shortened,
    shown,
    without_commands,
)


def test_what_would_steer_a_terminal_is_shown_and_the_rest_stays() -> None:
    assert printable("a\x1b[2J\tb\r\nc\x9b\u202e\ud800") == ("a\\x1b[2J\tb\nc\\x9b\\u202e\\ud800")
    assert printable("训练吞吐率 שלום é") == "训练吞吐率 שלום é"
    assert one_line(" a\n\n b\x00 ") == "a b\\x00"


@settings(deadline=None)
@given(st.text(st.characters()))
def test_any_text_can_be_written_and_has_no_control_character(text: str) -> None:
    made = printable(text)
    made.encode()
    assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in made)
    assert printable(made) == made


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("::error::x", ": :error::x"),
        ("a\n \t::stop-commands::t", "a\n \t: :stop-commands::t"),
        ("a ##[error]b", "a ## [error]b"),
        ("a ##vso[task.setvariable variable=b]c", "a ## vso[task.setvariable variable=b]c"),
        ("###teamcity[a] ## b[c]", "### teamcity[a] ## b[c]"),
        ("test.py::test_a and a::b", "test.py::test_a and a::b"),
    ],
)
def test_a_workflow_command_is_made_harmless(text: str, harmless: str) -> None:
    assert without_commands(text) == harmless


@pytest.mark.parametrize("variable", ["", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_commands_are_made_harmless_where_a_runner_reads_them(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "True")
    assert shown("##vso[a]") == ("## vso[a]" if variable else "##vso[a]")


def test_chinese_takes_two_columns_and_marks_none() -> None:
    assert columns("吞吐a") == 5
    assert columns("e\u0301\u200b") == 1
    assert padded("吞", 4) == "吞  "
    assert padded("吞", 4, right=True) == "  吞"


@settings(deadline=None)
@given(st.text(st.characters(categories=["L", "N"])), st.integers(min_value=1, max_value=20))
def test_what_is_shortened_fits_and_says_so(text: str, width: int) -> None:
    made = shortened(text, width)
    assert columns(made) <= width
    assert made == text or made.endswith("…")


def test_a_clipped_id_keeps_both_ends() -> None:
    assert clipped("tsm-torch-amp-bs16-1n8g", 11) == "tsm-t…-1n8g"
    assert clipped("tsm-torch", 9) == "tsm-torch"
    assert all(len(clipped("tsm-torch-amp-bs16-1n8g", width)) == width for width in range(2, 23))
