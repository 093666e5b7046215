"""Formats of programs that recognise speech."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Format, LogRecord, Loss, built_in, parser

#: Their time is in no window of training.
_OTHER_WORK: Final = re.compile(
    rb"\bComputing validation loss|, validation\b|\bSaving checkpoint to "
)
_line = parser(
    re.compile(rb"\bEpoch (?P<epoch>\d{1,9}), batch (?P<step>\d{1,15}), loss\["),
    loss=Loss(rb"\bloss\[(?:[^\]\n]{1,200}? )?loss="),
)


def _icefall(line: bytes) -> LogRecord | None:
    """Read a print, or that something other than training was done."""
    return LogRecord(step=-1, aside=1) if _OTHER_WORK.search(line) else _line(line)


FORMATS: Final = built_in(
    # icefall: ``train_one_epoch`` of ``egs/*/ASR/*/train.py`` (github.com/k2-fsa/icefall). Lines
    # have no time but that of the clock, and batches of as many seconds of speech, in which the
    # number of samples varies: only iterations a second are known.
    Format(
        name="icefall",
        framework="torch",
        scope="global",
        averaging="window",
        unit="iterations",
        anchors=(b", batch ", b" validation", b"Saving checkpoint to "),
        parse=_icefall,
        by_clock=True,
    ),
)
