"""Formats of programs that train models of vision: detectors, recognition of text, Keras."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from pytest_dlperf.measure.logs.bar_clock import bar_fields
from pytest_dlperf.measure.logs.declare import (
    MIB,
    Derived,
    Either,
    Event,
    Field,
    Format,
    InOrder,
    LogRecord,
    Loss,
    Numbers,
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


def _ultralytics(line: bytes) -> Mapping[str, float | None] | None:
    """Read a state of the bar of an epoch."""
    bar = _ULTRALYTICS.match(line)
    if bar is None:
        return None
    texts = {
        name: bar[new] or bar[old]
        for name, new, old in (
            ("hours", "h", "hours"),
            ("minutes", "m", "minutes"),
            ("seconds", "s", "seconds"),
        )
    }
    texts["seconds"] = bar["tenths"] or texts["seconds"]
    return {
        "epoch": int(bar["epoch"]),
        "epochs": int(bar["epochs"]),
        "done": int(bar["done"]),
        "bar_steps": int(bar["total"]),
        "aside": 0,
        **{name: float(text) for name, text in texts.items() if text is not None},
    }


_KERAS_EPOCH: Final = re.compile(rb"^Epoch (?P<epoch>\d{1,9})/\d{1,9}\s*$")
_KERAS_DONE: Final = rb"^\s{0,8}(?P<done>\d{1,15})/(?P<total>\d{1,15}) [^\n]{1,120}?"
_KERAS_STEP: Final = re.compile(_KERAS_DONE + rb"\b(?P<each>\d{1,9})(?P<unit>ms|us)/step\b")
#: What is left of an epoch: ``6:30 2s/step`` of Keras 3, ``ETA: 6:30`` before.
_KERAS_LEFT: Final = re.compile(
    _KERAS_DONE + rb" (?:(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d\d)"
    rb"|(?P<alone>\d{1,2})s) (?:(?P<whole>\d{1,9})s/step|- )"
)
#: So many seconds of ``ETA`` are as exact as a percentage or three.
_KERAS_EXACT_S: Final = 30
_KERAS_UNITS: Final = {b"ms": 1000, b"us": 1_000_000}
_KERAS_PARTS: Final = (("hours", 3600), ("minutes", 60), ("seconds", 1), ("alone", 1))
_KERAS_LOSS: Final = Loss(rb"(?<![_a-z])loss: ")


def _keras_numbers(bar: re.Pattern[bytes], line: bytes) -> Event | None:
    """Return the numbers of a state of a bar, or that of the line that names the epoch."""
    if epoch := _KERAS_EPOCH.match(line):
        return {"epoch": int(epoch["epoch"])}
    state = bar.match(line)
    if state is None:
        return None
    texts = state.groupdict()
    per = _KERAS_UNITS.get(texts.pop("unit", b""), 1)
    # The last state has the time of the validation in it.
    loss = None if b" val_" in line else _KERAS_LOSS(line)
    numbers = {name: None if text is None else int(text) for name, text in texts.items()}
    each = numbers.pop("each", None)
    return {**numbers, "each_s": None if each is None else each / per, "loss": loss}


class _Keras:
    """Makes the records of one log: an epoch's bars are those with the total of its first one."""

    def __init__(self) -> None:
        # As in ``Derived``
        from pytest_dlperf.measure.logs.events import Latest

        self._epoch = Latest()
        self._total = math.nan

    def __call__(self, states: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
        """Take in states of bars, and lines of epochs; return the fields of their records."""
        import numpy as np

        epoch, total = self._epoch.number_at(states["epoch"]), states["total"]
        seconds = states["each_s"]
        seconds = np.where(np.isnan(seconds), _seconds_by_rest(states), seconds)
        is_timed = ~np.isnan(seconds + epoch)
        if math.isnan(self._total) and is_timed.any():
            self._total = float(total[is_timed][0])
        return {
            "epoch": epoch,
            "step": states["done"],
            "epoch_steps": total,
            "seconds": seconds,
            "loss": states["loss"],
            "is_record": is_timed & (total == self._total) & ~np.isnan(states["loss"]),
        }


def _seconds_by_rest(states: Mapping[str, Numbers]) -> Numbers:
    """Return a step's mean by the seconds that are left.

    They are whole. In the first half of an epoch the time so far is as exact. Keras 3 has whole
    seconds of a step beside them, and shows shorter steps in milliseconds.
    """
    import numpy as np

    left_s = sum(np.nan_to_num(states[name]) * part_s for name, part_s in _KERAS_PARTS)
    done, total = states["done"], states["total"]
    is_fine = (left_s >= total - done) | (np.isnan(states["whole"]) & (left_s >= _KERAS_EXACT_S))
    is_exact = (done >= 1) & (2 * done <= total) & is_fine
    return np.where(is_exact, left_s / (total - done), np.nan)


def _keras(bar: re.Pattern[bytes]) -> InOrder:
    """Return the parser of one log."""
    return InOrder(behind_launcher(partial(_keras_numbers, bar)), _Keras())


def _keras_alone(bar: re.Pattern[bytes], line: bytes) -> LogRecord | None:
    return _keras(bar)(line)


_JEPA_STEP: Final = re.compile(rb"\[(?P<epoch>\d{1,9}), {0,12}(?P<step>\d{1,15})\] loss: ")
_JEPA_LOSS: Final = Loss(rb"\] loss: ")


_CLIP_STEP: Final = re.compile(
    rb"\bTrain Epoch: (?P<epoch>\d{1,9}) "
    rb"\[ {0,14}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15}) \( {0,2}\d{1,3}%\)\] "
)
_CLIP_RATE: Final = Field(rb" Batch \(t\): [\d.]{1,16}, ", rb"/s, [\d.]{1,16}/s/gpu ")
_clip_line = parser(
    _CLIP_STEP, required={"rate"}, rate=_CLIP_RATE, loss=Loss(rb" (?:Contrastive_l|L)oss: ")
)


def _clip_numbers(line: bytes) -> Event | None:
    record = _clip_line(line)
    if record is None:
        return None
    return {
        name: getattr(record, name) for name in ("epoch", "step", "epoch_steps", "rate", "loss")
    }


def _clip_fields(batch: int, numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the fields of a record: its steps count samples, and so many are an update."""
    steps = {name: numbers[name] // batch for name in ("step", "epoch_steps") if name in numbers}
    return {**numbers, **steps}


def _clip_parser(batch: int) -> Derived:
    return Derived(behind_launcher(_clip_numbers), partial(_clip_fields, batch))


def _with_clip_batch(fmt: Format, block: bytes) -> Format:
    """Return the format with the samples of an update: an epoch's first print is of one."""
    records = filter(None, map(_clip_line, block.split(b"\n")))
    first = next(records, None)
    parse = _clip_parser(1 if first is None else max(1, first.step))
    return replace(fmt, parse=parse, derived=parse, by_block=None)


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
        parse=Derived(behind_launcher(_ultralytics), bar_fields),
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
        parse=partial(_keras_alone, _KERAS_STEP),
        begin=partial(_keras, _KERAS_STEP),
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
        parse=partial(_keras_alone, _KERAS_LEFT),
        begin=partial(_keras, _KERAS_LEFT),
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
    # I-JEPA: ``src/train.py`` (github.com/facebookresearch/ijepa): a mean of the epoch so far, of
    # the step of a process on its device.
    Format(
        name="ijepa",
        framework="torch",
        scope="process",
        averaging="running",
        resolution=0.0001,
        unit="images",
        anchors=(b"[mem: ",),
        parse=parser(
            _JEPA_STEP,
            required={"seconds"},
            seconds=Field(rb"\] \(", rb" ms\)", per=1000),
            loss=_JEPA_LOSS,
        ),
        leaves_out="the wait for data",
    ),
    # V-JEPA: ``app/vjepa/train.py`` (github.com/facebookresearch/jepa, and vjepa2), which has the
    # time of the whole iteration as well.
    Format(
        name="vjepa",
        framework="torch",
        scope="process",
        averaging="running",
        resolution=0.0001,
        unit="clips",
        anchors=(b"[mem: ",),
        parse=parser(
            _JEPA_STEP,
            required={"seconds"},
            seconds=Field(rb"\[(?:wall|iter): ", rb" ms\]", per=1000),
            data_wait_seconds=Field(rb"\[data: ", rb" ms\]", per=1000),
            loss=_JEPA_LOSS,
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
    # DINOv2: ``MetricLogger`` of ``dinov2/logging/helpers.py`` (github.com/facebookresearch/
    # dinov2), in its log and in ``training_metrics.json``: the mean of the last 20 iterations.
    Format(
        name="dinov2",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        counter="global",
        anchors=(b'"iter_time": ', b"Training  ["),
        parse=parser(
            Field(rb'^\{"iteration": ', rb', "iter_time": '),
            re.compile(
                rb"\bTraining {1,4}"
                rb"\[ {0,14}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\] {1,4}eta: "
            ),
            required={"seconds"},
            seconds=Either(Field(rb'"iter_time": '), Field(rb" time: ")),
            data_wait_seconds=Either(Field(rb'"data_time": '), Field(rb" data: ")),
            loss=Loss(rb"\btotal_loss\"?: "),
            memory_bytes=Field(rb" max mem: ", per=MIB),
        ),
    ),
    # OpenCLIP: ``src/open_clip_train/train.py`` (github.com/mlfoundations/open_clip): the samples
    # of all devices of the printed update over its time, with the wait for data.
    Format(
        name="open-clip",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="samples",
        first_step=1,
        anchors=(b" Batch (t): ",),
        parse=_clip_parser(1),
        by_block=_with_clip_batch,
    ),
)
