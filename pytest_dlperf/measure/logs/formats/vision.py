"""Formats of programs that train models of vision: detectors, recognition of text, Keras."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from pytest_dlperf.measure.logs.declare import (
    MIB,
    Field,
    Format,
    LogRecord,
    Loss,
    behind_launcher,
    built_in,
    parser,
)

_DETECTRON_STEP: Final = Field(rb"(?:d2\.utils\.events\]:|eta: [^\n]{1,40}) {1,4}iter: ", rb"\b")
_DETECTRON_PARTS: Final = {
    "seconds": Field(rb"(?<![_a-z])time: "),
    "data_wait_seconds": Field(rb"(?<![_a-z])data_time: "),
    "loss": Loss(rb"\btotal_loss: "),
    "memory_bytes": Field(rb"\bmax_mem: ", rb"M", per=MIB),
}
_detectron = parser(_DETECTRON_STEP, alone={"seconds"}, **_DETECTRON_PARTS)  # type: ignore[arg-type]


def _detectron_mean(line: bytes) -> LogRecord | None:
    """Read a line whose time is a mean of the whole run."""
    return None if b"last_time: " in line else _detectron(line)


def _detectron_window(line: bytes) -> LogRecord | None:
    """Read a line whose time is a mean of the last iterations."""
    return _detectron(line) if b"last_time: " in line else None


_BAR_STEPS: Final = rb"(?P<done>\d{1,15})/(?P<total>\d{1,15}) "
_ULTRALYTICS: Final = re.compile(
    rb"^\s{0,12}(?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\s{1,12}[\d.]{1,9}[GM]?\s"
    rb"[^%\n]{1,200}:\s{1,4}\d{1,3}%[^\n]{1,200}?" + _BAR_STEPS + rb"(?:"
    rb"\[(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)<"
    rb"|[\d.?]{1,9}(?:it/s|s/it) (?:(?:(?P<h>\d{1,6}):)?(?P<m>\d{1,2}):(?P<s>\d\d)"
    rb"|(?P<tenths>\d{1,2}\.\d)s)(?:<|\s*$))"
)


def _ultralytics(line: bytes) -> LogRecord | None:
    """Read a state of the bar of an epoch."""
    bar = _ULTRALYTICS.match(line)
    if bar is None:
        return None
    parts = [
        float(bar[new] or bar[old] or 0)
        for new, old in (("h", "hours"), ("m", "minutes"), ("s", "seconds"))
    ]
    elapsed = parts[0] * 3600 + parts[1] * 60 + parts[2] + float(bar["tenths"] or 0)
    done = int(bar["done"])
    if done < 1 or elapsed < 1:
        return None
    return LogRecord(
        epoch=int(bar["epoch"]),
        epochs=int(bar["epochs"]),
        step=done,
        bar_steps=int(bar["total"]),
        seconds=elapsed / done,
        aside=0,
    )


#: Steps done, those of the epoch, and the mean seconds of one, of a line that has them.
_State = Callable[[bytes], tuple[int, int, float] | None]
_KERAS_EPOCH: Final = re.compile(rb"^Epoch (?P<epoch>\d{1,9})/\d{1,9}\s*$")
_KERAS_DONE: Final = rb"^\s{0,8}(?P<done>\d{1,15})/(?P<total>\d{1,15}) [^\n]{1,120}?"
_KERAS_STEP: Final = re.compile(_KERAS_DONE + rb"\b(?P<each>\d{1,9})(?P<unit>ms|us)/step\b")
#: What is left of an epoch: ``6:30 2s/step`` of Keras 3, ``ETA: 6:30`` before.
_KERAS_LEFT: Final = re.compile(
    _KERAS_DONE + rb" (?:(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d\d)"
    rb"|(?P<alone>\d{1,2})s) (?:\d{1,9}s/step|- )"
)
_KERAS_LOSS: Final = Loss(rb"(?<![_a-z])loss: ")


def _keras_mean(line: bytes) -> tuple[int, int, float] | None:
    """Return the steps done, those of the epoch, and a step's mean in whole milliseconds."""
    bar = _KERAS_STEP.match(line)
    if bar is None:
        return None
    per = 1000 if bar["unit"] == b"ms" else 1_000_000
    return int(bar["done"]), int(bar["total"]), int(bar["each"]) / per


def _keras_left(line: bytes) -> tuple[int, int, float] | None:
    """Return the steps done, those of the epoch, and a step's mean by the seconds that are left.

    They are whole. In the first half of an epoch the time so far is as exact.
    """
    bar = _KERAS_LEFT.match(line)
    if bar is None:
        return None
    done, total = int(bar["done"]), int(bar["total"])
    parts = [int(bar[name] or 0) for name in ("hours", "minutes", "seconds", "alone")]
    left_s = parts[0] * 3600 + parts[1] * 60 + parts[2] + parts[3]
    # Shorter steps are shown in milliseconds.
    if done < 1 or 2 * done > total or left_s < total - done:
        return None
    return done, total, left_s / (total - done)


class _Keras:
    """Reads the bars of one log: an epoch's are those with the total of its first one."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._epoch: int | None = None
        self._total: int | None = None

    def __call__(self, line: bytes) -> LogRecord | None:
        """Read a line; None if it is not a record."""
        if epoch := _KERAS_EPOCH.match(line):
            self._epoch = int(epoch["epoch"])
            return None
        state = self._state(line)
        if state is None or self._epoch is None:
            return None
        done, total, seconds = state
        self._total = self._total or total
        loss = _KERAS_LOSS(line)
        # The last state has the time of the validation in it.
        if total != self._total or loss is None or b" val_" in line:
            return None
        return LogRecord(
            epoch=self._epoch, step=done, epoch_steps=total, seconds=seconds, loss=loss
        )


def _keras(state: _State) -> Callable[[bytes], LogRecord | None]:
    """Return the parser of one log."""
    return behind_launcher(_Keras(state))


def _keras_alone(state: _State, line: bytes) -> LogRecord | None:
    return _keras(state)(line)


FORMATS: Final = built_in(
    # detectron2: ``CommonMetricPrinter`` of ``detectron2/utils/events.py``
    # (github.com/facebookresearch/detectron2). Today ``time`` is the mean of the last 20
    # iterations, and ``last_time`` is next to it; until 2022 it was the mean of the whole run,
    # from its third iteration on. A line may be wrapped.
    Format(
        name="detectron2",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        counter="global",
        anchors=(b" iter: ", b" last_time: "),
        parse=_detectron_window,
        batch_of="global",
    ),
    Format(
        name="detectron2-2019",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=2,
        resolution=0.0001,
        unit="images",
        counter="global",
        anchors=(b" iter: ", b"data_time: "),
        parse=_detectron_mean,
        several_lines=True,
        batch_of="global",
    ),
    # Ultralytics' YOLO, and YOLOv5: the bar of ``engine/trainer.py``
    # (github.com/ultralytics/ultralytics): ``1/100  2.5G  1.2  2.3  1.4  12  640:  45%|…| 67/150
    # [00:12<00:15, 5.5it/s]``, since 8.3 ``… 67/75 1.5s/it 1:39<11.7s``. Batches of an epoch over
    # the time since it began. A validation's bar has no epoch.
    Format(
        name="ultralytics",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=1,
        unit="images",
        first_step=1,
        anchors=(b"it/s", b"s/it"),
        parse=behind_launcher(_ultralytics),
        bar=True,
        batch_of="global",
    ),
    # Keras: ``keras/src/utils/progbar.py`` (github.com/keras-team/keras). A mean of the epoch in
    # whole milliseconds, under the line that names the epoch. Of steps of a second and more it
    # prints whole seconds, and what is left of the epoch, which is the mean of a step times those
    # that are left.
    Format(
        name="keras",
        scope="process",
        averaging="running",
        running_since=1,
        resolution=0.001,
        unit="samples",
        first_step=1,
        anchors=(b"/step",),
        context_anchors=(b"Epoch ",),
        parse=partial(_keras_alone, _keras_mean),
        begin=partial(_keras, _keras_mean),
        batch_of="global",
    ),
    Format(
        name="keras-seconds",
        scope="process",
        averaging="running",
        running_since=1,
        clock_resolution=1.0,
        unit="samples",
        first_step=1,
        anchors=(b"s/step", b" - ETA: "),
        context_anchors=(b"Epoch ",),
        parse=partial(_keras_alone, _keras_left),
        begin=partial(_keras, _keras_left),
        batch_of="global",
    ),
    # TensorFlow's slim and its object detection: ``train_step`` of ``tf_slim/learning.py``
    # (github.com/google-research/tf-slim). Seconds of the printed step of one process.
    Format(
        name="tf-slim",
        framework="tensorflow",
        scope="process",
        averaging="iteration",
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b" sec/step)",),
        parse=parser(
            Field(rb"\bglobal step ", rb": loss"),
            required={"seconds"},
            seconds=Field(rb" \(", rb" sec/step\)"),
            loss=Loss(rb": loss = "),
        ),
    ),
    # deep-text-recognition-benchmark: ``train.py`` (github.com/clovaai/
    # deep-text-recognition-benchmark). Seconds since training began, with its validations.
    Format(
        name="deep-text-recognition",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b"Elapsed_time: ",),
        parse=parser(
            re.compile(rb"\[(?P<step>\d{1,15})/(?P<total>\d{1,15})\] Train loss: "),
            required={"elapsed_s"},
            elapsed_s=Field(rb"\bElapsed_time: "),
            loss=Loss(rb"\bTrain loss: "),
        ),
        cumulative=True,
        batch_of="global",
    ),
)
