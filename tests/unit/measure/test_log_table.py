"""The table of ``docs/reference/log-formats.md``: a line of each format, and where it is from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs import clocks, registry

TABLE = re.compile(r"^\| `([^`]+)` \| `(.+)` \| (\S.*) \|$", re.MULTILINE)
PAGE = Path(__file__).parents[3] / "docs/reference/log-formats.md"
ROWS = TABLE.findall(PAGE.read_text("utf-8"))
BUILT_IN = list(registry.formats())


def test_every_format_has_its_row() -> None:
    assert [name for name, _, _ in ROWS] == BUILT_IN
    assert all("](https://" in source or source.startswith("`") for _, _, source in ROWS)


@pytest.mark.parametrize(("name", "cell"), [(name, cell) for name, cell, _ in ROWS])
def test_the_line_of_a_row_is_a_record(name: str, cell: str) -> None:
    text = cell.replace("\\|", "|").replace("⇥", "\t")
    declared = registry.named(name).for_log()

    records = [declared.parse(line.encode()) for line in text.split(" ⏎ ")]

    known = [record for record in records if record is not None]
    numbers = {
        value
        for record in known
        for value in (record.rate, record.seconds, record.elapsed_s, record.whole_run)
    }
    assert numbers - {None} or (declared.by_clock and clocks.stamp(text.encode()))
    assert max(record.step for record in known) > 0 or name == "ngc-pytorch-bert"
