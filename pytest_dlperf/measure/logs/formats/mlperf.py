"""The format of MLPerf's logs: events as JSON, whose meaning is in other events of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.measure.logs.declare import (
    Format,
    LogRecord,
    built_in,
    finite,
    json_count,
    json_loss,
    json_object,
    measured,
)

_MLPERF: Final = b":::MLLOG"
_STATS: Final = ("tracked_stats", "throughput")
_TRAINING_GOES_ON: Final = ("block_start", "eval_stop")
_TRAINING_STOPS: Final = ("block_stop", "eval_start")
_LOSSES: Final = ("loss", "train_loss", "reduced_train_loss")


class _Events:
    """Reads the events of one log in their order.

    A record is a ``throughput`` or a ``train_step_time`` with its step. A log without them has
    records of blocks: by a ``train_step_time`` without a step, else by the clock of its events.
    """

    def __init__(self) -> None:
        self._batch: float | None = None
        self._sequence: float | None = None
        #: Samples of the run when training last stopped, and of the block that runs.
        self._samples = 0.0
        self._block_samples: float | None = None
        #: The clock when training last went on; None while it stands still.
        self._since_s: float | None = None
        #: Of an iteration of the block, by an event that names no step.
        self._step_seconds: float | None = None
        #: Records of steps are better than those of blocks.
        self._has_stats = False

    def __call__(self, line: bytes) -> LogRecord | None:
        """Read a line; None if it is not a record."""
        event = json_object(line.partition(_MLPERF)[2])
        if event is None:
            return None
        key, value, metadata = event.get("key"), event.get("value"), event.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if not isinstance(key, str):
            return None
        if key == "global_batch_size":
            self._batch = measured(json_count(value))
        elif key == "max_sequence_length":
            self._sequence = measured(json_count(value))
        elif key in _STATS:
            return self._stats(
                value if isinstance(value, dict) else {"throughput": value}, metadata
            )
        elif key in _TRAINING_GOES_ON or key in _TRAINING_STOPS:
            return self._block(key, json_count(event.get("time_ms")), metadata)
        return None

    def _stats(self, value: Mapping[str, Any], metadata: Mapping[str, Any]) -> LogRecord | None:
        loss = next((json_loss(value[name]) for name in _LOSSES if name in value), None)
        rate, seconds = finite(value.get("throughput")), finite(value.get("train_step_time"))
        step = _first(metadata, "step", "epoch_num")
        # A part of an epoch counts no steps.
        if rate is not None and step is not None and step == int(step):
            self._has_stats = True
            return LogRecord(step=int(step), rate=rate, loss=loss)
        if rate is not None:
            return LogRecord(step=-1, whole_run=rate)
        if measured(seconds) is not None and step is None:
            self._step_seconds = seconds
        if measured(seconds) is None or step is None or self._batch is None:
            return None if loss is None else LogRecord(step=-1, loss=loss)
        assert seconds is not None
        self._has_stats = True
        return LogRecord(
            step=int(step) + 1,
            rate=self._batch / seconds,
            seconds=seconds,
            work=self._batch,
            loss=loss,
        )

    def _block(
        self, key: str, clock_ms: float | None, metadata: Mapping[str, Any]
    ) -> LogRecord | None:
        """Take in that training goes on or stops; return the record of what it did between."""
        if self._batch is None or clock_ms is None:
            return None
        if key in _TRAINING_GOES_ON:
            self._since_s = clock_ms / 1000
            if key == "block_start":
                self._block_samples = self._samples_of(metadata, "epoch_count")
            return None
        since_s, self._since_s = self._since_s, None
        step_seconds, self._step_seconds = self._step_seconds, None
        begin, end = self._samples, self._samples_at(key, metadata)
        if end is None or end <= begin:
            return None
        self._samples = end
        if step_seconds is None and since_s is not None:
            step_seconds = (clock_ms / 1000 - since_s) * self._batch / (end - begin)
        if self._has_stats or measured(step_seconds) is None:
            return None
        assert step_seconds is not None
        return LogRecord(
            start=int(begin / self._batch),
            step=int(end / self._batch),
            rate=self._batch / step_seconds,
            seconds=step_seconds,
            work=self._batch,
        )

    def _samples_at(self, key: str, metadata: Mapping[str, Any]) -> float | None:
        """Return the samples that the run has had when training stops; None if nothing says it."""
        # NVIDIA's samples are those of a block, and its steps those of the run.
        step = json_count(metadata.get("step"))
        if step is not None and self._batch is not None:
            return step * self._batch
        samples = json_count(metadata.get("samples_count"))
        if samples is not None:
            return samples
        if key == "eval_start":
            return self._samples_of(metadata, "epoch_num")
        first = self._samples_of(metadata, "first_epoch_num")
        block = self._block_samples
        return None if first is None or block is None else first + block

    def _samples_of(self, metadata: Mapping[str, Any], name: str) -> float | None:
        """Return a count of tokens in samples; one of epochs is None."""
        tokens = json_count(metadata.get(name))
        if tokens is None or self._batch is None or self._sequence is None:
            return None
        update = self._batch * self._sequence
        return tokens / self._sequence if tokens % update == 0 else None


def _first(metadata: Mapping[str, Any], *names: str) -> float | None:
    """Return the first number that is there; a number that is a list counts as none."""
    numbers = (json_count(metadata[name]) for name in names if name in metadata)
    return next(numbers, None)


def _alone(line: bytes) -> LogRecord | None:
    return _Events()(line)


FORMATS: Final = built_in(
    # MLPerf logging: ``mlperf_logging/mllog/mllog.py`` (github.com/mlcommons/logging).
    # ``tracked_stats`` with ``throughput`` is what submitters add; its ``step`` or ``epoch_num``
    # counts epochs, samples or tokens, by the submitter; work is in proportion to it, so that work
    # over time is right in each case. NVIDIA's containers of 2024 and 2025 print
    # ``train_step_time`` instead (github.com/mlcommons/training_results_v5.1), seconds of an
    # iteration with ``global_batch_size``. Others have the events of blocks alone.
    Format(
        name="mlperf",
        scope="global",
        averaging="window",
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b'"tracked_stats"', b'"key": "throughput"', b'"block_st', b'"eval_st'),
        context_anchors=(b'"global_batch_size"', b'"max_sequence_length"'),
        parse=_alone,
        begin=_Events,
    ),
)
