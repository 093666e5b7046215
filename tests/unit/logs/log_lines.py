"""Lines by the format strings of their programs: ``step`` seconds of each iteration are given."""

from __future__ import annotations

import json
from collections.abc import Callable

BATCH = 16
#: Gets the 0-based iteration and its seconds (one device of one); returns a line.
Writer = Callable[[int, float], str]


def paddleclas(i: int, s: float) -> str:
    return (
        f"[2023/07/28 07:55:56] ppcls INFO: epoch:0   train step:{i:<4d} lr: 0.100000, "
        f"loss:  5.08 batch_cost: {s:.5f} s, reader_cost: {s / 100:.5f} s, "
        f"ips: {BATCH / s:.5f} samples/sec."
    )


def paddleclas2020(i: int, s: float) -> str:
    return (
        f"2020-12-16 19:07:16 INFO: epoch:0   train step:{i:<4d} loss:  6.9 lr: 0.1 "
        f"elapse: {s:.3f}s ips: {BATCH / s:.5f} images/sec."
    )


def paddleseg(i: int, s: float) -> str:
    return (
        f"2022-02-05 04:33:42 [INFO]\t[TRAIN] epoch: 1, iter: {i + 1}/150, loss: 0.6, lr: 0.004, "
        f"batch_cost: {s:.4f}, reader_cost: 0.00232, ips: {BATCH / s:.4f} samples/sec | ETA 00:00"
    )


def paddlevideo(i: int, s: float) -> str:
    return (
        f"[04/12 10:00:00] epoch:[  1/80 ] \x1b[95mtrain step:{i:<4d}\x1b[0m loss: 5.9 lr: 0.02 "
        f"\x1b[92mbatch_cost: {s:.5f} sec,\x1b[0m reader_cost: 0.00100 sec, "
        f"ips: {BATCH / s:.5f} instance/sec."
    )


def paddlenlp_bert(i: int, s: float) -> str:
    word = ("total step:", "tobal step:")[i % 2]
    return (
        f"{word} {i + 1}, epoch: 0, batch: {i}, loss: 10.5, avg_reader_cost: 0.00009 sec, "
        f"avg_batch_cost: {s:.5f} sec, avg_samples: 16.00000, ips: {BATCH / s:.5f} sequences/sec"
    )


def paddlenlp_bert_2020(i: int, s: float) -> str:
    return (
        f"global step {i + 1}, epoch: 0, batch: {i}, loss: 9.7, speed: {1 / s:.2f} step/s, "
        f"ips :{BATCH / s:.2f} sequences/s"
    )


def paddlenlp_transformer(i: int, s: float) -> str:
    return (
        f"2021-05-08 17:47:56,926-INFO: step_idx: {i}, epoch: 0, batch: {i}, avg loss: 7.1, "
        f"avg_speed: {1 / s:.2f} step/s, batch_cost: {s:.5f} sec, reader_cost: 0.00008 sec, "
        f"tokens: 16, ips: {BATCH / s:.5f} words/sec"
    )


def plsc(i: int, s: float) -> str:
    return f"INFO 2021-03-12 entry.py:980] Pass:0 batch:{i} lr:0.1 loss:38.2 qps:{BATCH / s:.2f}"


def ngc_pytorch(i: int, s: float) -> str:
    return (
        f"DLL 2023-08-04 05:48:55.591805 - Epoch: 0 Iteration: {i + 1}  train.loss : 5.7 None "
        f"train.compute_ips : 999999.0 images/s train.total_ips : {BATCH / s:.2f} images/s"
    )


def ngc_mxnet(i: int, s: float) -> str:
    return (
        f"[1,0]<stdout>:DLL 2023-07-31 06:28:26.549215 - Epoch: 0 Iteration: {i}  "
        f"train.loss : 6.1 train.ips : {BATCH / s} images/s train.lr : 0 "
    )


def ngc_mxnet_2020(i: int, s: float) -> str:
    return (
        f"2020-12-16 08:40:23,768:INFO: Epoch[0] Batch [{i}-{i}]\tSpeed: {BATCH / s} samples/sec"
    )


def ngc_tensorflow(i: int, s: float) -> str:
    return f"DLL 2022-11-24 04:08:03.932501 - (0, {i}) total_ips : {BATCH / s} "


def ngc_nvlog(i: int, s: float) -> str:
    head = ":::NVLOGv0.2.3 resnet 1621936530.867425203 (benchmark_hooks.py:60)"
    return f"{head} iteration: {i}\n{head} total_ips: {BATCH / s}"


def ngc_tensorflow_bert(i: int, s: float) -> str:
    return (
        f"DLL 2023-08-01 05:54:35.492709 - Iteration: {max(1, i - 8)}  "
        f"throughput_train : {BATCH / s:.3f} sequences/s total_loss : 10.8  "
    )


def ngc_transformer(i: int, s: float) -> str:
    return (
        f"Transformer | epoch 0 | step {i + 1} |avg loss 5.686 |avg tokens {BATCH} "
        f"|tokens/s {BATCH / s:.3f} |walltime 395.0 |"
    )


def mmseg(i: int, s: float) -> str:
    return (
        f"2022-02-10 06:23:28,248 - mmseg - INFO - Iter [{i + 1}/150]\tlr: 1.3e-03, eta: 0:00:00, "
        f"time: {s:.3f}, data_time: 0.001, memory: 18878, loss: 3.09"
    )


def tf2_timehistory(i: int, s: float) -> str:
    return (
        f"I0826 17:47:05.245885 1399 keras_utils.py:133] TimeHistory: {s:.2f} seconds, "
        f"{BATCH / s:.2f} examples/second between steps {i} and {i + 1}"
    )


def imagenet(i: int, s: float) -> str:
    return (
        f"Epoch: [0][{i:4d}/5005]\tTime {s:6.3f} ( 2.681)\tData  0.001 ( 1.1)\tLoss 6.9e+00 (7.0)"
    )


def tsm(i: int, s: float) -> str:
    return (
        f"Epoch: [0][{i}/5005], lr: 0.02000\tTime {s:.3f} (2.681)\tData 0.001 (1.1)\t"
        "Loss 5.1 (5.2)\tPrec@1 1.0 (1.0)\tPrec@5 5.0 (5.0)"
    )


def torchtitan(i: int, s: float) -> str:
    return (
        f"[rank0]:\x1b[31mstep: {i + 1:2}  \x1b[32mloss:  8.1  \x1b[33mmemory: 33.90GiB(42.8%)  "
        f"\x1b[34mtps: {round(BATCH / s):,}  \x1b[36mtflops: 81.2  \x1b[35mmfu: 41.20%\x1b[39m"
    )


def megatron(i: int, s: float) -> str:
    return (
        f" [2025-04-13 23:41:12] iteration {i + 1:8d}/{150:8d} | consumed samples: {160:12d} | "
        f"elapsed time per iteration (ms): {s * 1000:.1f} | learning rate: 0.0E+00 | "
        f"global batch size: {BATCH:5d} | lm loss: 7.399415E+00 |"
    )


def deepspeed(i: int, s: float) -> str:
    return (
        f"[2023-10-31 08:58:33,237] [INFO] [timer.py:260:stop] epoch=0/micro_step={i + 1}/"
        f"global_step={i + 1}, RunningAvgSamplesPerSec=1.5, CurrSamplesPerSec={BATCH / s}, "
        "MemAllocated=0.0GB, MaxMemAllocated=0.0GB"
    )


def lightning(i: int, s: float) -> str:
    elapsed = round((i + 1) * s)
    return (
        f"Epoch 0:  10%|#   | {i + 1}/500 [{elapsed // 60:02d}:{elapsed % 60:02d}<03:45, "
        "2.00it/s, v_num=0, train_loss=5.10]\r"
    )


def mlperf(i: int, s: float) -> str:
    event = {
        "namespace": "",
        "time_ms": 1,
        "event_type": "POINT_IN_TIME",
        "key": "tracked_stats",
        "value": {"throughput": BATCH / s},
        "metadata": {"step": i + 1},
    }
    return f":::MLLOG {json.dumps(event)}"


def dlperf(i: int, s: float) -> str:
    span = {"record": "span", "first_step": i, "last_step": i, "seconds": s, "work": BATCH}
    return json.dumps({"rank": 0, **span, "data_wait_seconds": None})


#: Every format that prints steps, with a writer of its lines.
WRITERS: tuple[tuple[str, Writer], ...] = (
    ("paddleclas", paddleclas),
    ("paddleclas2020", paddleclas2020),
    ("paddleseg", paddleseg),
    ("paddlevideo", paddlevideo),
    ("paddlenlp-bert", paddlenlp_bert),
    ("paddlenlp-bert", paddlenlp_bert_2020),
    ("paddlenlp-transformer", paddlenlp_transformer),
    ("plsc", plsc),
    ("ngc-pytorch", ngc_pytorch),
    ("ngc-mxnet", ngc_mxnet),
    ("ngc-mxnet", ngc_mxnet_2020),
    ("ngc-tensorflow", ngc_tensorflow),
    ("ngc-nvlog", ngc_nvlog),
    ("ngc-tensorflow-bert", ngc_tensorflow_bert),
    ("ngc-transformer", ngc_transformer),
    ("mmseg", mmseg),
    ("tf2-timehistory", tf2_timehistory),
    ("imagenet", imagenet),
    ("tsm", tsm),
    ("torchtitan", torchtitan),
    ("megatron", megatron),
    ("deepspeed", deepspeed),
    ("lightning", lightning),
    ("mlperf", mlperf),
    ("dlperf", dlperf),
)


def log(writer: Writer, *, iterations: int = 150, seconds: float = 0.5) -> str:
    """Return a log in which every iteration took as long."""
    return "".join(f"{writer(i, seconds)}\n" for i in range(iterations))
