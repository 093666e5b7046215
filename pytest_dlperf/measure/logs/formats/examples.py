"""Formats of the example programs of TensorFlow and PyTorch, and of programs made from them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.log_pattern import Scope
from pytest_dlperf.measure.logs.declare import (
    GIB,
    MIB,
    WHOLE_NUMBER,
    Field,
    Format,
    LogRecord,
    Loss,
    built_in,
    parser,
)

_time_history = parser(
    re.compile(rb"between steps (?P<start>\d{1,15}) and (?P<step>\d{1,15})"),
    rate=Field(rb"seconds, ", rb" examples/second"),
)
_time_history_2019 = parser(
    re.compile(rb"'global step': ?(?P<step>\d{1,15}),"),
    rate=Field(rb"'examples_per_second': "),
)


_cnn_benchmark = parser(
    re.compile(rb"(?:^|[\s|])(?P<step>\d{1,15})\s{1,12}images/sec: "),
    required={"rate"},
    rate=Field(rb"\bimages/sec: "),
    loss=Loss(rb"\(jitter = [\d.]{1,16}\)\s{1,12}"),
)
#: Its rate is printed to so much.
_CNN_DIGIT: Final = 0.1
#: Of one process a device, and of workers that have several: each prints its own rate.
_CNN_SCOPES: Final[tuple[tuple[bytes, Scope], ...]] = (
    (b"Variables:   horovod", "process"),
    (b"'/job:worker", "node"),
)


def _cnn_processes(fmt: Format, block: bytes) -> Format:
    """Return the format with whose rate is printed, and with the rounding of its rates."""
    rates = (
        record.rate
        for line in block.split(b"\n")
        if b"images/sec: " in line and (record := _cnn_benchmark(line)) is not None and record.rate
    )
    rate = next(rates, None)
    scopes = (scope for words, scope in _CNN_SCOPES if words in block)
    return replace(
        fmt,
        scope=next(scopes, "global"),
        resolution=_CNN_DIGIT / rate**2 if rate else 0.0,
        by_block=None,
    )


def _time_histories(line: bytes) -> LogRecord | None:
    """Read a record; absl and the TensorFlow logger may both print it, which is one record."""
    return _time_history(line) or _time_history_2019(line)


FORMATS: Final = built_in(
    # TensorFlow 2 official models: ``TimeHistory`` of ``official/utils/misc/keras_utils.py``. In
    # 2019 it printed ``BenchmarkMetric: {'global step':100, …}`` with the end of the window alone.
    Format(
        name="tf2-timehistory",
        framework="tensorflow",
        scope="global",
        averaging="window",
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b"TimeHistory:", b"BenchmarkMetric:"),
        parse=_time_histories,
        batch_of="global",
    ),
    # TensorFlow's ``tf_cnn_benchmarks``: ``benchmark_one_step`` of ``scripts/tf_cnn_benchmarks/
    # benchmark_cnn.py`` (github.com/tensorflow/benchmarks). The mean of all steps after its own
    # warm-up, of all devices of the process that prints it.
    Format(
        name="tf-cnn-benchmarks",
        framework="tensorflow",
        scope="global",
        averaging="running",
        running_since=1,
        unit="images",
        first_step=1,
        counter="global",
        anchors=(b"images/sec: ",),
        parse=_cnn_benchmark,
        by_block=_cnn_processes,
    ),
    # The TSM repository's own ``main.py``: like the ImageNet example, with ``, lr:`` after the
    # step. One process drives all devices (``DataParallel``), so the time is that of the global
    # batch, and ``--batch-size`` counts it. The mean in brackets is used, as there.
    Format(
        name="tsm",
        framework="torch",
        scope="process",
        averaging="running",
        resolution=0.001,
        unit="clips",
        anchors=(b"Epoch: [",),
        parse=parser(
            re.compile(
                rb"Epoch: \[(?P<epoch>\d{1,9})\]"
                rb"\[(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\], lr: "
            ),
            seconds=Field(rb"\bTime [\d.]{1,16} \("),
            data_wait_seconds=Field(rb"\bData [\d.]{1,16} \("),
            loss=Loss(rb"\bLoss "),
        ),
        batch_of="global",
    ),
    # The ImageNet example of PyTorch: ``examples/imagenet/main.py``. ``Time`` is the printed
    # iteration alone, the mean of the epoch so far is in brackets. The mean is used: where data is
    # short its batches come in bursts, and one iteration in ten or a hundred may show none of the
    # waiting. Every process counts its own share of the batch; ``-b`` is that of the node.
    Format(
        name="imagenet",
        framework="torch",
        scope="process",
        averaging="running",
        resolution=0.001,
        unit="images",
        anchors=(b"Epoch: [",),
        parse=parser(
            re.compile(
                rb"Epoch: \[(?P<epoch>\d{1,9})\]"
                rb"\[\s{0,12}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\]\s"
            ),
            seconds=Field(rb"\bTime\s{1,12}[\d.]{1,16} \(\s{0,12}"),
            data_wait_seconds=Field(rb"\bData\s{1,12}[\d.]{1,16} \(\s{0,12}"),
            loss=Loss(rb"\bLoss\s{1,12}"),
        ),
        batch_of="node",
    ),
    # torchvision's references: ``MetricLogger`` of ``references/classification/utils.py``.
    # Detection, DETR, DeiT and MAE have the same. ``time`` is the mean of the last 20 iterations,
    # the wait for data within it. ``img/s`` is that of the last iteration without the wait, and is
    # not used. A test's lines begin with ``Test:``.
    Format(
        name="torchvision",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        anchors=(b"Epoch: [",),
        parse=parser(
            re.compile(
                rb"\bEpoch: \[(?P<epoch>\d{1,9})\] {1,4}"
                rb"\[ {0,14}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\] {1,4}eta: "
            ),
            seconds=Field(rb" time: "),
            data_wait_seconds=Field(rb" data: "),
            loss=Loss(rb" loss: "),
            grad_norm=Loss(rb" grad_norm: "),
            memory_bytes=Field(rb" max mem: ", per=MIB),
        ),
    ),
    # timm: ``train.py`` (github.com/huggingface/pytorch-image-models). Images a second of all
    # devices: of the printed update, and in brackets by the mean time of the epoch's updates. The
    # mean is used, as in the ImageNet example. The last batch of an epoch is a whole one.
    Format(
        name="timm",
        framework="torch",
        scope="global",
        averaging="running",
        unit="images",
        anchors=(b"Train: ",),
        parse=parser(
            re.compile(
                rb"\bTrain: (?P<epoch>\d{1,9}) "
                rb"\[ {0,8}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15}) \( {0,3}\d{1,3}%\)\]"
            ),
            required={"rate"},
            rate=Field(rb"/s  \([\d.]{1,16}s, {1,8}", rb"/s\)"),
            loss=Loss(rb"\bLoss: {1,4}"),
        ),
    ),
    # torchtitan: ``components/metrics.py``; tokens a second of one device since the last print.
    # Called ``wps`` in ``train.py`` of 2024. Validation has a line of the same kind that begins
    # with ``validate step:``.
    Format(
        name="torchtitan",
        framework="torch",
        scope="device",
        averaging="window",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b"tps:", b"wps:"),
        parse=parser(
            Field(rb"\bstep: {1,12}"),
            excluded=(b"validate step",),
            required={"rate"},
            # A line that ends there was cut.
            rate=Field(rb"\b(?:tps|wps): {1,12}", WHOLE_NUMBER + rb"(?= {1,4}[a-z])"),
            loss=Loss(rb"\bloss: {1,12}"),
            grad_norm=Loss(rb"\bgrad_norm: {1,12}"),
            memory_bytes=Field(rb"\bmemory: {1,12}", rb"GiB\b", per=GIB),
            tflops=Field(rb"\btflops: {1,12}"),
            mfu=Field(rb"\bmfu: {1,12}", rb"%", per=100),
        ),
    ),
)
