"""The format of MLPerf's logs: events as JSON, whose meaning is in other events of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.measure.logs.declare import (
    Event,
    Format,
    InOrder,
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


#: Numbers of the metadata of a block or an evaluation.
_OF_BLOCK: Final = ("step", "samples_count", "epoch_count", "epoch_num", "first_epoch_num")


def _numbers(line: bytes) -> Event | None:
    """Return the numbers of an event that says something of speed; None if it does not."""
    event = json_object(line.partition(_MLPERF)[2])
    if event is None:
        return None
    key, value, metadata = event.get("key"), event.get("value"), event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if not isinstance(key, str):
        return None
    if key == "global_batch_size":
        return {"batch": measured(json_count(value)) or 0.0}
    if key == "max_sequence_length":
        return {"sequence": measured(json_count(value)) or 0.0}
    if key in _STATS:
        value = value if isinstance(value, dict) else {"throughput": value}
        return {
            "rate": finite(value.get("throughput")),
            "step_seconds": measured(finite(value.get("train_step_time"))),
            "loss": next((json_loss(value[name]) for name in _LOSSES if name in value), None),
            "step": _first(metadata, "step", "epoch_num"),
        }
    clock_ms = json_count(event.get("time_ms"))
    if clock_ms is None or key not in _TRAINING_GOES_ON + _TRAINING_STOPS:
        return None
    return {
        "clock_ms": clock_ms,
        "goes_on": float(key in _TRAINING_GOES_ON),
        "is_block": float(key.startswith("block")),
        **{name: json_count(metadata.get(name)) for name in _OF_BLOCK},
    }


class _Events:
    """Makes the records of one log of its events, in their order.

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

    def __call__(self, event: Event) -> Event | None:
        """Take in an event; return the fields of its record, or None if it is not one."""
        if "clock_ms" in event:
            return self._block(event)
        if "batch" in event:
            self._batch = event["batch"] or None
        elif "sequence" in event:
            self._sequence = event["sequence"] or None
        else:
            return self._stats(event)
        return None

    def _stats(self, event: Event) -> Event | None:
        loss, rate, step = event.get("loss"), event.get("rate"), event.get("step")
        seconds = event.get("step_seconds")
        # A part of an epoch counts no steps.
        if rate is not None and step is not None and step == int(step):
            self._has_stats = True
            return {"step": step, "rate": rate, "loss": loss}
        if rate is not None:
            return {"step": -1, "whole_run": rate}
        if seconds is not None and step is None:
            self._step_seconds = seconds
        if seconds is None or step is None or self._batch is None:
            return None if loss is None else {"step": -1, "loss": loss}
        self._has_stats = True
        return {
            "step": step // 1 + 1,
            "rate": self._batch / seconds,
            "seconds": seconds,
            "work": self._batch,
            "loss": loss,
        }

    def _block(self, event: Event) -> Event | None:
        """Take in that training goes on or stops; return the record of what it did between."""
        clock_ms = event["clock_ms"]
        if self._batch is None or clock_ms is None:
            return None
        if event["goes_on"]:
            self._since_s = clock_ms / 1000
            if event["is_block"]:
                self._block_samples = self._samples_of(event, "epoch_count")
            return None
        since_s, self._since_s = self._since_s, None
        step_seconds, self._step_seconds = self._step_seconds, None
        begin, end = self._samples, self._samples_at(event)
        if end is None or end <= begin:
            return None
        self._samples = end
        if step_seconds is None and since_s is not None:
            step_seconds = (clock_ms / 1000 - since_s) * self._batch / (end - begin)
        if self._has_stats or measured(step_seconds) is None:
            return None
        assert step_seconds is not None
        return {
            "start": int(begin / self._batch),
            "step": int(end / self._batch),
            "rate": self._batch / step_seconds,
            "seconds": step_seconds,
            "work": self._batch,
        }

    def _samples_at(self, event: Event) -> float | None:
        """Return the samples that the run has had when training stops; None if nothing says it."""
        # NVIDIA's samples are those of a block, and its steps those of the run.
        step = event.get("step")
        if step is not None and self._batch is not None:
            return step * self._batch
        samples = event.get("samples_count")
        if samples is not None:
            return samples
        if not event["is_block"]:
            return self._samples_of(event, "epoch_num")
        first = self._samples_of(event, "first_epoch_num")
        block = self._block_samples
        return None if first is None or block is None else first + block

    def _samples_of(self, event: Event, name: str) -> float | None:
        """Return a count of tokens in samples; one of epochs is None."""
        tokens = event.get(name)
        if tokens is None or self._batch is None or self._sequence is None:
            return None
        update = self._batch * self._sequence
        return tokens / self._sequence if tokens % update == 0 else None


def _first(metadata: Mapping[str, Any], *names: str) -> float | None:
    """Return the first number that is there; a number that is a list counts as none."""
    numbers = (json_count(metadata[name]) for name in names if name in metadata)
    return next(numbers, None)


def _begin() -> InOrder:
    return InOrder(_numbers, _Events())


def _alone(line: bytes) -> LogRecord | None:
    return _begin()(line)


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
        begin=_begin,
    ),
)
