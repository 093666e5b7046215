"""The table of log formats in the reference: a line that each reads, and where it is from."""

from __future__ import annotations

import pytest
from dlperf_reference.log_formats import FORMATS, text

from pytest_dlperf.measure.logs import clocks, registry


def test_every_format_has_its_row() -> None:
    assert list(FORMATS) == list(registry.formats())
    assert [name for name, (_, source, _) in FORMATS.items() if not source] == ["dlperf"]
    assert all(source.startswith("https://") for _, source, _ in FORMATS.values() if source)
    assert len(text().splitlines()) == len(FORMATS) + 2


@pytest.mark.parametrize("name", FORMATS)
def test_the_line_of_a_row_is_a_record(name: str) -> None:
    line = FORMATS[name][2].replace("⇥", "\t")
    declared = registry.named(name).for_log()

    records = [declared.parse(part.encode()) for part in line.split(" ⏎ ")]

    known = [record for record in records if record is not None]
    numbers = {
        value
        for record in known
        for value in (record.rate, record.seconds, record.elapsed_s, record.whole_run)
    }
    assert numbers - {None} or (declared.by_clock and clocks.stamp(line.encode()))
    assert max(record.step for record in known) > 0 or name == "ngc-pytorch-bert"
