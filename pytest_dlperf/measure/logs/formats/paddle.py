"""Formats of PaddlePaddle's programs: PaddleClas, PaddleSeg, PaddleVideo, PaddleNLP and PLSC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pytest_dlperf.measure.logs.declare import (
    Derived,
    Field,
    Format,
    Loss,
    Numbers,
    built_in,
    parser,
)

_RATE: Final = Field(rb"\bips: ")
_BATCH_COST: Final = Field(rb"\bbatch_cost: ")
_READER_COST: Final = Field(rb"\breader_cost: ")
_LOSS: Final = Loss(rb"\bloss: {1,8}")
_TRAIN_STEP: Final = re.compile(
    rb"epoch:(?P<epoch>\d{1,9})\s{1,8}train step:\s{0,8}(?P<step>\d{1,15})"
)

_clas2020 = parser(
    _TRAIN_STEP,
    excluded=(b"END epoch",),
    rate=_RATE,
    seconds=Field(rb"\belapse: "),
    loss=_LOSS,
)

_TRAINER_STEP: Final = Field(rb"\bglobal_step: ", rb",")
_TRAINER_RUNTIME: Final = Field(rb"\binterval_runtime: ")
_STEPS_A_SECOND: Final = Field(rb"\binterval_steps_per_second: ")
_SAMPLES_A_SECOND: Final = Field(rb"\binterval_samples_per_second: ")
_TRAINER_LOSS: Final = Loss(rb"\bloss: ")


def _nlp_numbers(line: bytes) -> Mapping[str, float | None] | None:
    """Read the numbers of a record."""
    step, runtime = _TRAINER_STEP.whole(line), _TRAINER_RUNTIME(line)
    speed = _STEPS_A_SECOND(line)
    if step is None or runtime is None or speed is None:
        return None
    samples = _SAMPLES_A_SECOND(line)
    loss = _TRAINER_LOSS(line)
    return {"step": step, "runtime": runtime, "speed": speed, "samples": samples, "loss": loss}


def _nlp_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the seconds; updates a second since the last print have too few digits for it."""
    # As in ``Derived``
    import numpy as np

    fields = dict(numbers)
    runtime, speed = fields.pop("runtime"), fields.pop("speed")
    # The speed has few digits, but the updates are a whole number.
    updates = np.rint(np.clip(runtime * speed, 0.0, 1e9))
    if "samples" in fields:
        fields["work"] = fields.pop("samples") * runtime / updates
    return {**fields, "seconds": runtime / updates, "is_record": updates >= 1}


FORMATS: Final = built_in(
    # PaddleClas from 2021: ``ppcls/static/program.py``, ``ppcls/engine/train/utils.py``. The
    # meters are set back when step 5 of an epoch begins, so a printed ``batch_cost`` is the mean
    # since then. The static program has new ones in each epoch; in the dynamic one (``[Train]``)
    # the mean of an epoch runs on until step 5 of the next. ``ips`` is the last batch over the
    # mean time, also where an epoch's last batch is a smaller one. ``END epoch`` lines average a
    # whole epoch. PLSC of 2022 prints lines of the same kind that mean something else.
    Format(
        name="paddleclas",
        framework="paddle",
        scope="device",
        averaging="running",
        running_since=5,
        carries_over=True,
        cost_resolution=1e-5,
        unit="images",
        anchors=(b"batch_cost:",),
        parse=parser(
            _TRAIN_STEP,
            re.compile(
                rb"\[Train\]\[Epoch (?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\]"
                rb"\[Iter: (?P<step>\d{1,15})/"
            ),
            excluded=(b"END epoch", b"plsc "),
            epoch_steps=Field(rb"\[Iter: \d{1,15}/", rb"\]"),
            rate=_RATE,
            seconds=_BATCH_COST,
            data_wait_seconds=_READER_COST,
            loss=Loss(rb"\b(?:CELoss|[Ll]oss): {1,8}"),
        ),
    ),
    # PaddleClas of 2020: ``tools/static/program.py``; every step, a running mean as in 2021.
    Format(
        name="paddleclas2020",
        framework="paddle",
        scope="device",
        averaging="running",
        unit="images",
        anchors=(b"elapse:",),
        parse=lambda line: _clas2020(line) if b" ips: " in line else None,
        batch_of="global",
    ),
    # PaddleClas of January 2021, dynamic: ``tools/program.py``; commas after epoch and step. The
    # meters are set back when step 10 of an epoch begins, later at step 5.
    Format(
        name="paddleclas2021",
        framework="paddle",
        scope="device",
        averaging="running",
        running_since=10,
        unit="images",
        anchors=(b", train step:",),
        parse=parser(
            re.compile(rb"epoch:(?P<epoch>\d{1,9}) {0,8}, train step:(?P<step>\d{1,15}) {0,8},"),
            rate=_RATE,
            seconds=_BATCH_COST,
            data_wait_seconds=_READER_COST,
            loss=_LOSS,
        ),
        batch_of="global",
    ),
    # PaddleSeg: ``paddleseg/core/train.py``; means over ``log_iters``, ``iter`` never restarts.
    # Until January 2021 it printed ``iter=5/100`` and no ``ips``.
    Format(
        name="paddleseg",
        framework="paddle",
        scope="device",
        averaging="window",
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b"[TRAIN]",),
        parse=parser(
            Field(rb"\biter(?:: |=)", rb"/"),
            epoch=Field(rb"\bepoch(?:: |=)", rb","),
            total=Field(rb"\biter(?:: |=)\d{1,15}/"),
            rate=Field(rb"\bips(?:: |=)"),
            seconds=Field(rb"\bbatch_cost(?:: |=)"),
            data_wait_seconds=Field(rb"\breader_cost(?:: |=)"),
            loss=Loss(rb"\bloss(?:: |=)"),
        ),
    ),
    # PaddleVideo (TSM): ``paddlevideo/tasks/train.py``, ``paddlevideo/utils/record.py``.
    # ``batch_cost`` (``elapse`` at first) is the value of the printed iteration alone; ``END
    # epoch`` lines are means of the whole epoch, warm-up and all.
    Format(
        name="paddlevideo",
        framework="paddle",
        scope="device",
        averaging="iteration",
        unit="clips",
        anchors=(b"train step:",),
        parse=parser(
            re.compile(
                rb"epoch:\[\s{0,8}(?P<epoch>\d{1,9})/\s{0,8}(?P<epochs>\d{1,9})\s{0,8}\]\s{0,8}"
                rb"train step:\s{0,8}(?P<step>\d{1,15})"
            ),
            rate=Field(rb"\bips: {1,4}"),
            seconds=Field(rb"\b(?:batch_cost|elapse): {1,4}"),
            data_wait_seconds=Field(rb"\breader(?:_cost)?: {1,4}"),
            loss=_LOSS,
        ),
    ),
    # PaddleNLP BERT: ``run_pretrain.py``, static and dynamic, in three spellings: ``total step``,
    # the ``tobal step`` of 2021, and ``global step`` of 2020 with ``ips :``. GPT's lines are like
    # the last, but their ``tokens/s`` are of one device or of all by the version.
    Format(
        name="paddlenlp-bert",
        framework="paddle",
        scope="device",
        averaging="window",
        unit="sequences",
        first_step=1,
        counter="global",
        anchors=(b"total step:", b"tobal step:", b"global step "),
        parse=parser(
            Field(rb"\b(?:to[tb]al step:|global step) ", rb","),
            required={"rate"},
            rate=Field(rb"\bips ?: ?", rb" sequences/s"),
            seconds=Field(rb"\bavg_batch_cost: "),
            data_wait_seconds=Field(rb"\bavg_reader_cost: "),
            loss=Loss(rb"\bloss: "),
        ),
    ),
    # PaddleNLP Transformer: ``examples/machine_translation/transformer/static/train.py``.
    # ``tokens`` counts the window, not one iteration. The first line has no speed and marks where
    # the first window starts.
    Format(
        name="paddlenlp-transformer",
        framework="paddle",
        scope="device",
        averaging="window",
        unit="tokens",
        counter="global",
        anchors=(b"step_idx:",),
        parse=parser(
            Field(rb"\bstep_idx: ", rb","),
            epoch=Field(rb"\bepoch: ", rb","),
            rate=_RATE,
            seconds=_BATCH_COST,
            data_wait_seconds=_READER_COST,
            loss=Loss(rb"\bavg loss: "),
        ),
    ),
    # PaddleNLP's Trainer, from 2022: ``paddlenlp/trainer/trainer.py``. The log's head has the
    # batch of an update. ``interval_samples_per_second`` counts one update for all of them in
    # versions of 2022: it makes no rate, and must agree.
    Format(
        name="paddlenlp-trainer",
        framework="paddle",
        scope="process",
        averaging="window",
        unit="sequences",
        first_step=1,
        counter="global",
        anchors=(b"interval_steps_per_second: ",),
        parse=Derived(_nlp_numbers, _nlp_fields),
    ),
    # PLSC (ArcFace): ``plsc/entry.py`` at 9bba9c9. ``qps`` counts the global batch, times only
    # the executor (not the wait for data), and every rank prints it.
    Format(
        name="plsc",
        framework="paddle",
        scope="global",
        averaging="window",
        unit="images",
        anchors=(b"Pass:",),
        parse=parser(
            re.compile(rb"Pass:(?P<epoch>\d{1,9}) batch:(?P<step>\d{1,15})"),
            rate=Field(rb"\b(?:qps|avg_samples/s):\s?"),
            loss=Loss(rb"\bloss:\s?"),
        ),
    ),
    # PLSC of 2021, dynamic: ``utils/logging.py``, after insightface's ``utils_callbacks.py``.
    # ``throughput`` is that of all devices since the last print, and every rank prints it.
    # Insightface itself (``recognition/arcface_torch``) has ``Speed … samples/sec`` and ``Global
    # Step:``.
    Format(
        name="plsc2021",
        scope="global",
        averaging="window",
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b" imgs/sec", b" samples/sec   Loss "),
        parse=parser(
            Field(rb"(?:, step: |\bGlobal Step: {0,4})"),
            required={"rate"},
            rate=Field(rb"(?:, throughput: |-Speed )", rb" (?:imgs|samples)/sec"),
            loss=Loss(rb"\b[Ll]oss "),
        ),
    ),
    # PLSC from 2022: ``plsc/engine/recognition/train.py`` and its ``utils.py``. The line is that
    # of PaddleClas, but ``ips`` counts the batch of all devices, and the meters are set back with
    # every print.
    Format(
        name="plsc2022",
        framework="paddle",
        scope="global",
        averaging="window",
        unit="images",
        anchors=(b"batch_cost:",),
        parse=parser(
            re.compile(
                rb"\bplsc [A-Z]{1,9}: \[Train\]\[Epoch (?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\]"
                rb"\[Iter: (?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\]"
            ),
            rate=_RATE,
            seconds=_BATCH_COST,
            data_wait_seconds=_READER_COST,
            loss=Loss(rb"\bloss: "),
        ),
    ),
)
