"""The format of programs that forecast time series, which come from one another."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import (
    Field,
    Format,
    LogRecord,
    Loss,
    behind_launcher,
    built_in,
    parser,
)

_EPOCH_ENDS: Final = re.compile(rb"^Epoch: \d{1,9} cost time: ")
_line = parser(
    re.compile(rb"\biters: (?P<step>\d{1,15}), epoch: (?P<epoch>\d{1,9})\b"),
    alone={"seconds"},
    seconds=Field(rb"\bspeed: ", rb"s/iter\b"),
    loss=Loss(rb"\| loss: "),
)


def _informer(line: bytes) -> LogRecord | None:
    """Read one of the two lines of a record, or the end of an epoch."""
    return LogRecord(step=-1, aside=1) if _EPOCH_ENDS.match(line) else _line(line)


FORMATS: Final = built_in(
    # Informer, Autoformer, TimesNet, TimeMixer, iTransformer and others: ``exp/exp_*.py``
    # (github.com/zhouhaoyi/Informer2020, github.com/thuml/Time-Series-Library). The step is on one
    # line, its time on the next; the first of an epoch has the validation in it.
    Format(
        name="informer",
        framework="torch",
        scope="process",
        averaging="window",
        unit="samples",
        first_step=1,
        anchors=(b"iters: ", b"s/iter; left time:", b" cost time: "),
        parse=behind_launcher(_informer),
        several_lines=True,
        spans_epochs=True,
        batch_of="global",
    ),
)
