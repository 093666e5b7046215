"""Formats of NVIDIA's DeepLearningExamples (NGC), as text and as DLLogger's ``DLLL {…}`` JSON."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, built_in, parser

_STEP: Final = re.compile(
    rb"(?:Epoch: |\"step\": ?\[)(?P<epoch>\d{1,9})(?: Iteration: |, ?)(?P<step>\d{1,15})"
)
_LOSS: Final = Loss(rb"\btrain\.loss(?: : |\": ?)")

FORMATS: Final = built_in(
    # PyTorch ResNet-50: ``image_classification/logger.py``, as in ``raport.json`` too.
    Format(
        name="ngc-pytorch",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="images",
        first_step=1,
        anchors=(b"train.total_ips",),
        parse=parser(_STEP, rate=Field(rb"\btrain\.total_ips(?: : |\": ?)"), loss=_LOSS),
    ),
    # MXNet ResNet-50 (``fit.py``), and its ``Epoch[1] Batch [320-339]`` of 2020. Windows of
    # ``disp_batches`` iterations; the speed is global in both, and in 2020 every rank printed it.
    # ``Epoch[0] Batch [20]`` of MXNet's own Speedometer is of one process, and is not read.
    Format(
        name="ngc-mxnet",
        framework="mxnet",
        scope="global",
        averaging="window",
        unit="images",
        anchors=(b"train.ips", b"Speed: "),
        parse=parser(
            _STEP,
            re.compile(rb"Epoch\[(?P<epoch>\d{1,9})\] Batch \[\d{1,15}-(?P<step>\d{1,15})\]"),
            rate=Field(rb"(?:\btrain\.ips(?: : |\": ?)|\bSpeed: )"),
            loss=_LOSS,
        ),
        batch_of="global",
    ),
    # TensorFlow 1 ResNet-50: hooks of ``runtime/runner_utils.py``. The first 200 iterations are
    # its warm-up and are not printed.
    Format(
        name="ngc-tensorflow",
        framework="tensorflow",
        scope="global",
        averaging="window",
        unit="images",
        anchors=(b") total_ips :", b'{"total_ips":'),
        parse=parser(
            re.compile(rb"(?:- \(|\"step\": ?\[)(?P<epoch>\d{1,9}), ?(?P<step>\d{1,15})[)\]]"),
            required={"rate"},
            rate=Field(rb"\btotal_ips(?: ?: |\": ?)"),
        ),
        warmup_removed=True,
    ),
    # TensorFlow 1 ResNet-50 of 2021: NVLOG lines of ``benchmark_hooks.py``. The iteration is on
    # one line and its rate on the next; iterations that warm up are not printed.
    Format(
        name="ngc-nvlog",
        framework="tensorflow",
        scope="global",
        averaging="window",
        unit="images",
        anchors=(b":::NVLOG",),
        parse=parser(Field(rb"\biteration: "), alone={"rate"}, rate=Field(rb"\btotal_ips: ")),
        warmup_removed=True,
        counter="global",
        several_lines=True,
    ),
    # TensorFlow 1 BERT: ``run_pretraining.py``. ``Iteration`` does not change while the loss
    # scaler skips updates; the work is done all the same.
    Format(
        name="ngc-tensorflow-bert",
        framework="tensorflow",
        scope="global",
        averaging="iteration",
        unit="sequences",
        first_step=1,
        anchors=(b"throughput_train",),
        parse=parser(
            Field(rb"(?:\bIteration: |\"step\": ?\[?)", rb",?[ \]]"),
            required={"rate"},
            rate=Field(rb"\bthroughput_train(?: : |\": ?)"),
            loss=Loss(rb"\btotal_loss(?: : |\": ?)"),
        ),
        counter="stalls",
    ),
    # PyTorch BERT: ``run_pretraining.py`` prints one rate, of the whole run. Its warm-up cannot be
    # taken out, so no throughput is given. MLPerf's fork prints it in a dict.
    Format(
        name="ngc-pytorch-bert",
        framework="torch",
        scope="global",
        averaging="whole",
        unit="sequences",
        first_step=1,
        counter="global",
        anchors=(b"training_sequences_per_second", b"Training Iteration:"),
        parse=parser(
            Field(rb"\bTraining Iteration: ", rb" "),
            alone={"whole_run"},
            whole_run=Field(rb"\btraining_sequences_per_second(?: :|['\"]:) ?"),
            loss=Loss(rb"\baverage_loss : "),
        ),
    ),
    # PyTorch Transformer (a fork of fairseq): ``train.py`` through DLLogger's text output.
    Format(
        name="ngc-transformer",
        framework="torch",
        scope="global",
        averaging="window",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b"|tokens/s ",),
        parse=parser(
            re.compile(rb"Transformer \| epoch (?P<epoch>\d{1,9}) \| step (?P<step>\d{1,15}) \|"),
            rate=Field(rb"\|tokens/s "),
            work=Field(rb"\|avg tokens "),
            loss=Loss(rb"\|avg loss "),
        ),
    ),
    # MLPerf's GNN (R-GAT): ``train.py`` of NVIDIA's submission, and of those who use its container
    # (github.com/mlcommons/training_results_v5.1). Milliseconds of the printed iteration of all
    # devices; ``global_batch_size`` is an event of the same log.
    Format(
        name="ngc-gnn",
        framework="torch",
        scope="process",
        averaging="iteration",
        unit="samples",
        counter="global",
        anchors=(b"| iteration_time : ",),
        parse=parser(
            Field(rb"\bIteration ", rb" \|"),
            required={"seconds"},
            seconds=Field(rb"\| iteration_time : ", rb" ms\b", per=1000),
            loss=Loss(rb"\| train_loss : "),
        ),
    ),
)
