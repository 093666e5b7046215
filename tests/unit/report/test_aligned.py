"""Tables of aligned cells: every table of a terminal is made by this function."""

from __future__ import annotations

from pytest_dlperf.report.aligned import aligned

ROWS = (("case", "runs", "remark"), ("tsm", "5", ""), ("transformer", "12", "cannot be certified"))


def test_columns_are_as_wide_as_their_longest_cell_and_no_line_ends_with_a_blank() -> None:
    assert aligned(ROWS, right={1}) == [
        "case         runs  remark",
        "tsm             5",
        "transformer    12  cannot be certified",
    ]


def test_all_cells_are_at_the_left_unless_named() -> None:
    assert aligned((("a", "rate"), ("longer", "1"))) == ["a       rate", "longer  1"]


def test_a_chinese_character_takes_two_columns() -> None:
    assert aligned((("测试", "5"), ("tsm", "12")), right={1}) == ["测试   5", "tsm   12"]
