"""Writes the records of a measured training, of a workload's and of a marked program's alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_dlperf.core.wire_records import LossRecord, SpanRecord, WindowRecord
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.compiling import CompileSample
from pytest_dlperf.worker.records import MetricBook, RecordWriter


class Steps(NamedTuple):
    """Each iteration of a rank, those of the warm-up included."""

    #: Wall and CPU seconds.
    laps: Sequence[tuple[float, float]]
    #: Seconds of wait for data; None where they are unknown.
    waits_s: Sequence[float | None]
    works: Sequence[float]

    def spans(self) -> Iterable[SpanRecord]:
        """Return a span for each iteration."""
        timed = enumerate(zip(self.laps, self.waits_s, self.works, strict=True))
        for index, ((seconds, cpu_seconds), wait_s, work) in timed:
            yield SpanRecord(
                first_step=index,
                last_step=index,
                seconds=seconds,
                work=work,
                cpu_seconds=cpu_seconds,
                data_wait_seconds=wait_s,
            )


def write_training(
    records: RecordWriter,
    steps: Steps,
    window: WindowRecord,
    compiled_before: CompileSample,
    book: MetricBook,
    losses: Iterable[float],
) -> list[float]:
    """Write spans, window, compilations since the sample before it, metrics and losses.

    Returns the losses, which are read last: a tensor of a GPU is waited for.
    """
    records.write_spans(steps.spans())
    records.write(window=window)
    records.write(
        compile=compiling.compile_record(compiled_before, compiling.sample(), compiling.graphs())
    )
    reported = book.record()
    if reported["values"]:
        records.write(metrics=reported)
    values = list(losses)
    # JSON has no numbers that are not finite
    records.write(loss=LossRecord(values=[v if math.isfinite(v) else str(v) for v in values]))
    return values
