"""The format of MLPerf's logs: events as JSON, whose meaning is in other events of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.measure.logs.declare import (
    LEAST,
    MOST,
    Event,
    Format,
    InOrder,
    LogRecord,
    Numbers,
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
_RUN_STARTS: Final = "run_start"
_LOSSES: Final = ("loss", "train_loss", "reduced_train_loss")


#: More than the samples of any run; whole numbers are exact up to many times as much.
_MOST_SAMPLES: Final = 2.0**44
#: Numbers of the metadata of a block or an evaluation.
_OF_BLOCK: Final = ("samples_count", "epoch_count", "epoch_num", "first_epoch_num")


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
    if key == _RUN_STARTS:
        return {"run_starts": 1.0}
    clock_ms = json_count(event.get("time_ms"))
    if clock_ms is None or key not in _TRAINING_GOES_ON + _TRAINING_STOPS:
        return None
    return {
        "clock_ms": clock_ms,
        "goes_on": float(key in _TRAINING_GOES_ON),
        "is_block": float(key.startswith("block")),
        "steps_done": json_count(metadata.get("step")),
        **{name: json_count(metadata.get(name)) for name in _OF_BLOCK},
    }


class _Records:
    """Makes the records of one log of its events, in their order.

    A record is a ``throughput`` or a ``train_step_time`` with its step. A log without them has
    records of blocks: by a ``train_step_time`` without a step, else by the clock of its events.
    """

    def __init__(self) -> None:
        # As in ``Derived``
        from pytest_dlperf.measure.logs.events import Latest

        self._batch, self._sequence = Latest(), Latest()
        #: Samples of the run when training last stopped, and of the block that runs.
        self._samples = 0.0
        self._block_samples = Latest()
        #: The clock when training last went on; none while it stands still.
        self._since_s = Latest()
        #: Of an iteration of the block, by an event that names no step.
        self._step_seconds = Latest()
        #: Records of steps are better than those of blocks.
        self._has_stats = False

    def __call__(self, events: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
        """Take in events; return the fields of their records."""
        import numpy as np

        batch, sequence = (
            self._batch.number_at(events["batch"]),
            self._sequence.number_at(events["sequence"]),
        )
        batch, sequence = (
            np.where(batch > 0, batch, np.nan),
            np.where(sequence > 0, sequence, np.nan),
        )
        rate, step, loss = events["rate"], events["step"], events["loss"]
        seconds = events["step_seconds"]
        # A part of an epoch counts no steps.
        has_rate, has_step = ~np.isnan(rate), ~np.isnan(step)
        is_rate = has_rate & (step == np.floor(step))
        is_of_run = has_rate & ~is_rate
        is_time = ~has_rate & has_step & ~np.isnan(batch / seconds)
        stats = np.logical_or.accumulate(is_rate | is_time) | self._has_stats
        self._has_stats = bool(stats[-1])
        block = self._blocks(events, batch, sequence, ~has_rate & ~has_step)
        is_block = block["is_record"] & ~stats
        cases = [is_rate, is_time, is_block]
        seconds = np.select([is_time, is_block], [seconds, block["seconds"]], np.nan)
        return {
            "start": np.where(is_block, block["start"], np.nan),
            "step": np.select(cases, [step, np.floor(step) + 1, block["step"]], -1.0),
            "rate": np.where(is_rate, rate, batch / seconds),
            "seconds": seconds,
            "work": np.where(is_time | is_block, batch, np.nan),
            "loss": np.where(is_of_run, np.nan, loss),
            "whole_run": np.where(is_of_run, rate, np.nan),
            "is_record": has_rate | is_time | is_block | ~np.isnan(loss),
        }

    def _blocks(
        self,
        events: Mapping[str, Numbers],
        batch: Numbers,
        sequence: Numbers,
        is_in_block: Numbers,
    ) -> Mapping[str, Numbers]:
        """Take in where training goes on and stops; return the records of what is between.

        A time is ``is_in_block`` where it has no step.
        """
        import numpy as np

        clock_s, is_block = events["clock_ms"] / 1000, events["is_block"] > 0
        is_event = ~np.isnan(clock_s + batch)
        goes_on, stops = (is_event & (events["goes_on"] == flag) for flag in (1, 0))
        turns = goes_on | stops
        since_s = self._since_s.number_before(np.where(goes_on, clock_s, np.nan), turns)
        each_s = np.where(is_in_block, events["step_seconds"], np.nan)
        each_s = self._step_seconds.number_before(each_s, stops | ~np.isnan(each_s))

        def samples(name: str) -> Numbers:
            """Return a count of tokens in samples; one of epochs is none."""
            iterations = events[name] / (batch * sequence)
            return np.where(iterations == np.floor(iterations), iterations * batch, np.nan)

        # NVIDIA's samples are those of a block, and its steps those of the run.
        block_samples = self._block_samples.number_at(samples("epoch_count"), goes_on & is_block)
        by_tokens = np.where(
            is_block, samples("first_epoch_num") + block_samples, samples("epoch_num")
        )
        counts = (events["steps_done"] * batch, events["samples_count"], by_tokens)
        end = np.select([~np.isnan(count) for count in counts], counts, np.nan)
        ends = np.where(stops & ~np.isnan(end), end, 0.0)
        # Where a run starts again its samples do.
        runs = np.cumsum(events["run_starts"] > 0) * _MOST_SAMPLES
        done = np.maximum.accumulate(np.concatenate([[self._samples], ends + runs]))
        begin = np.maximum(done[:-1] - runs, 0.0)
        self._samples = float(max(begin[-1], ends[-1]))
        by_clock = (clock_s - since_s) * batch / (end - begin)
        each_s = np.where(np.isnan(each_s), by_clock, each_s)
        return {
            "start": np.floor(begin / batch),
            "step": np.floor(end / batch),
            "seconds": each_s,
            "is_record": stops & (end > begin) & (each_s > LEAST) & (each_s < MOST),
        }


def _first(metadata: Mapping[str, Any], *names: str) -> float | None:
    """Return the first number that is there; a number that is a list counts as none."""
    numbers = (json_count(metadata[name]) for name in names if name in metadata)
    return next(numbers, None)


def _begin() -> InOrder:
    return InOrder(_numbers, _Records())


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
        anchors=(
            b'"tracked_stats"',
            b'"key": "throughput"',
            b'"block_st',
            b'"eval_st',
            b'"run_start"',
        ),
        context_anchors=(b'"global_batch_size"', b'"max_sequence_length"'),
        parse=_alone,
        begin=_begin,
    ),
)
