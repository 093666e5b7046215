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


def paddleclas_dynamic(i: int, s: float) -> str:
    return (
        f"[2022/08/05 01:28:59] ppcls INFO: [Train][Epoch 1/1][Iter: {i}/150]"
        f"lr(LinearWarmup): 0.32, top1: 0.22, CELoss: 4.46, loss: 4.46, batch_cost: {s:.5f}s, "
        f"reader_cost: {s / 100:.5f}, ips: {BATCH / s:.5f} samples/s, eta: 11 days, 22:45:05"
    )


def paddleclas2021(i: int, s: float) -> str:
    return (
        f"2021-01-31 20:30:07 INFO: epoch:0  , train step:{i:<4d}, top1: 0.75, loss: 0.97458, "
        f"lr: 0.1, batch_cost: {s:.5f} s, reader_cost: 0.00010 s, "
        f"ips: {BATCH / s:.5f} images/sec."
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


def paddleseg_2020(i: int, s: float) -> str:
    return (
        f"2021-01-19 07:02:41 [INFO]\t[TRAIN] epoch=1, iter={i + 1}/150, loss=2.87, lr=0.009639, "
        f"batch_cost={s:.4f}, reader_cost=0.0001 | ETA 00:01:24"
    )


def paddlevideo(i: int, s: float) -> str:
    return (
        f"[04/12 10:00:00] epoch:[  1/1  ] \x1b[95mtrain step:{i:<4d}\x1b[0m loss: 5.9 lr: 0.02 "
        f"\x1b[92mbatch_cost: {s:.5f} sec,\x1b[0m reader_cost: 0.00100 sec, "
        f"ips: {BATCH / s:.5f} instance/sec."
    )


def paddlevideo_2020(i: int, s: float) -> str:
    return (
        f"[12/04 10:00:00] epoch:[  1/1  ] train step:{i:<4d} loss: 5.9 lr: 0.02 elapse: {s:.3f} "
        f"reader: 0.001 top1: 0.1s ips: {BATCH / s:.5f} instance/sec."
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


def paddlenlp_trainer(i: int, s: float) -> str:
    return (
        f"[2022-08-31 16:19:16,008] [    INFO] - loss: 3.258, learning_rate: 2.99e-05, "
        f"global_step: {i + 1}, interval_runtime: {s:.4f}, interval_samples_per_second: 999.5, "
        f"interval_steps_per_second: {1 / s:.3f}, epoch: 0.0265"
    )


def plsc(i: int, s: float) -> str:
    return f"INFO 2021-03-12 entry.py:980] Pass:0 batch:{i} lr:0.1 loss:38.2 qps:{BATCH / s:.2f}"


def plsc2021(i: int, s: float) -> str:
    return (
        f"Training: 2021-10-12 10:00:00,123 - loss 12.5, lr: 0.1, epoch: 0, step: {i + 1}, "
        f"eta: 3.21 hours, throughput: {BATCH / s:.4f} imgs/sec"
    )


def insightface(i: int, s: float) -> str:
    return (
        f"Training: 2022-05-05 03:04:06,521-Speed {BATCH / s:.4f} samples/sec   Loss 43.3935   "
        f"LearningRate 0.1000   Epoch: 0   Global Step: {i + 1}   Required: 2244 hours"
    )


def plsc2022(i: int, s: float) -> str:
    return (
        f"[2022/10/12 10:00:00] plsc INFO: [Train][Epoch 1/1][Iter: {i}/150]lr: 0.1, "
        f"loss: 12.5, batch_cost: {s:.5f}s, reader_cost: 0.00010, "
        f"ips: {BATCH / s:.5f} images/sec, eta: 3:21:00"
    )


def ngc_pytorch(i: int, s: float) -> str:
    return (
        f"DLL 2023-08-04 05:48:55.591805 - Epoch: 0 Iteration: {i + 1}  train.loss : 5.7 None "
        f"train.compute_ips : 999999.0 images/s train.total_ips : {BATCH / s:.2f} images/s"
    )


def dlll(step: str, data: str) -> str:
    head = '"timestamp": "1596724123.2", "datetime": "2020-08-06 14:28:43.2", "elapsedtime": "5.4"'
    return f'DLLL {{{head}, "type": "LOG", "step": {step}, "data": {{{data}}}}}'


def ngc_pytorch_json(i: int, s: float) -> str:
    data = f'"train.loss": 7.0, "train.compute_ips": 99999.0, "train.total_ips": {BATCH / s:.4f}'
    return dlll(f"[0, {i + 1}]", data)


def ngc_mxnet_json(i: int, s: float) -> str:
    return dlll(f"[0, {i}]", f'"train.loss": 6.1, "train.ips": {BATCH / s:.4f}, "train.lr": 0.1')


def ngc_tensorflow_json(i: int, s: float) -> str:
    return dlll(f"[0, {i}]", f'"total_ips": {BATCH / s:.4f}')


def ngc_tensorflow_bert_json(i: int, s: float) -> str:
    return dlll(f"{max(1, i - 8)}", f'"throughput_train": {BATCH / s:.4f}, "total_loss": 10.8')


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


def mmengine(i: int, s: float) -> str:
    return (
        f"2023/05/24 20:17:36 - mmengine - INFO - Iter(train) [{i + 1:5d}/150]  base_lr: 9.9e-03 "
        f"lr: 9.9e-03  eta: 8 days, 4:44:34  time: {s:.4f}  data_time: 0.0010  memory: 17929  "
        "loss: 7.6343  decode.loss_ce: 3.1140"
    )


def mmengine_epochs(i: int, s: float) -> str:
    return mmengine(i, s).replace("Iter(train) [", "Epoch(train)  [1][").replace("/150", "/150")


def mmcv_json(i: int, s: float) -> str:
    return (
        f'{{"mode": "train", "epoch": 1, "iter": {i + 1}, "lr": 0.0093, "memory": 5123, '
        f'"data_time": 0.00123, "decode.loss_ce": 0.5, "loss": 0.5, "time": {s:.5f}}}'
    )


def mmengine_json(i: int, s: float) -> str:
    return (
        f'{{"lr": 0.0093, "data_time": 0.00123, "loss": 0.5, "decode.loss_ce": 0.5, '
        f'"time": {s:.5f}, "epoch": 1, "iter": {i + 1}, "memory": 5123, "step": {i + 1}}}'
    )


def tf2_timehistory(i: int, s: float) -> str:
    return (
        f"I0826 17:47:05.245885 1399 keras_utils.py:133] TimeHistory: {s:.2f} seconds, "
        f"{BATCH / s:.2f} examples/second between steps {i} and {i + 1}"
    )


def tf2_timehistory_2019(i: int, s: float) -> str:
    return (
        f"I1001 17:47:05.245885 1399 keras_utils.py:91] BenchmarkMetric: {{'global step':{i + 1}, "
        f"'time_taken': {s:.6f},'examples_per_second': {BATCH / s:.6f}}}"
    )


def imagenet(i: int, s: float) -> str:
    return f"Epoch: [0][{i:4d}/150]\tTime  0.001 ({s:6.3f})\tData  0.000 ( 0.001)\tLoss 6.9 (7.0)"


def torchvision(i: int, s: float) -> str:
    return (
        f"Epoch: [0]  [{i:4d}/150]  eta: 1 day, 2:03:04  lr: 0.1  img/s: 9999.0  "
        f"loss: 6.93 (6.94)  acc1: 0.1 (0.2)  time: {s:.4f}  data: 0.0010  max mem: 7312"
    )


def tsm(i: int, s: float) -> str:
    return (
        f"Epoch: [0][{i}/150], lr: 0.02000\tTime 0.001 ({s:.3f})\tData 0.000 (0.001)\t"
        "Loss 5.1 (5.2)\tPrec@1 1.0 (1.0)\tPrec@5 5.0 (5.0)"
    )


def torchtitan(i: int, s: float) -> str:
    return (
        f"[rank0]:\x1b[31mstep: {i + 1:2}  \x1b[32mloss:  8.1  \x1b[33mmemory: 33.90GiB(42.8%)  "
        f"\x1b[34mtps: {round(BATCH / s):,}  \x1b[36mtflops: 81.2  \x1b[35mmfu: 41.20%\x1b[39m"
    )


def torchtitan_2024(i: int, s: float) -> str:
    return (
        f"[rank0]:2024-07-01 10:00:00,123 - root - INFO - step: {i + 1:2}  loss: 8.1  "
        f"memory: 33.90GiB(42.8%)  wps: {round(BATCH / s):,}  mfu: 41.20%"
    )


def megatron(i: int, s: float) -> str:
    return (
        f" [2025-04-13 23:41:12] iteration {i + 1:8d}/{150:8d} | consumed samples: {160:12d} | "
        f"elapsed time per iteration (ms): {s * 1000:.1f} | learning rate: 0.0E+00 | "
        f"global batch size: {BATCH:5d} | lm loss: 7.399415E+00 |"
    )


def megatron_rocm(i: int, s: float) -> str:
    return megatron(i, s).replace(f"{s * 1000:.1f} |", f"{s * 1000:.1f}/2700.0 |")


def megatron_ascend(i: int, s: float) -> str:
    return megatron(i, s).replace("global batch", "gloabl batch")


def gpt_neox(i: int, s: float) -> str:
    return (
        f" samples/sec: {BATCH / s:.4f} | iteration {i + 1:8d}/{150:8d} | "
        f"elapsed time per iteration (ms): {s * 1000:.1f} | learning rate: 2.1E-06 | "
        "approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 |"
    )


def deepspeed(i: int, s: float) -> str:
    return (
        f"[2023-10-31 08:58:33,237] [INFO] [timer.py:260:stop] epoch=0/micro_step={i + 1}/"
        f"global_step={i + 1}, RunningAvgSamplesPerSec=1.5, CurrSamplesPerSec={BATCH / s}, "
        "MemAllocated=0.0GB, MaxMemAllocated=0.0GB"
    )


def deepspeed2020(i: int, s: float) -> str:
    head = "[2021-03-11 02:06:58,985] [INFO] [timer.py:154:stop]"
    return f"{head} 0/{i + 1}, SamplesPerSec={BATCH / s}"


def deepspeed2022(i: int, s: float) -> str:
    return (
        f"[2022-09-11 02:06:58,985] [INFO] [timer.py:198:stop] 0/{i + 1}, "
        f"RunningAvgSamplesPerSec={BATCH / s}, CurrSamplesPerSec=999.5, MemAllocated=0.26GB, "
        "MaxMemAllocated=9.02GB"
    )


def huggingface(i: int, s: float) -> str:
    elapsed = round((i + 1) * s)
    return (
        f"\r 10%|#    | {i + 1}/150 [{elapsed // 60:02d}:{elapsed % 60:02d}<08:03,  1.97it/s]"
        "\n{'loss': '2.075', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.04'}"
    )


def lightning(i: int, s: float) -> str:
    elapsed = round((i + 1) * s)
    return (
        f"Epoch 0:  10%|#   | {i + 1}/500 [{elapsed // 60:02d}:{elapsed % 60:02d}<03:45, "
        "2.00it/s, v_num=0, train_loss=5.10]\r"
    )


def lightning_2020(i: int, s: float) -> str:
    new, old = "2.00it/s, v_num=0, train_loss=5.10", "1.25s/it, loss=5.1, v_num=7"
    bar = lightning(i, s).replace(new, old)
    # Every state is drawn again with its loss.
    return f"{bar}\n{bar}"


def lightning_rich(i: int, s: float) -> str:
    elapsed = round((i + 1) * s)
    clock = f"{elapsed // 3600}:{elapsed % 3600 // 60:02d}:{elapsed % 60:02d}"
    return f"Epoch 0/9  ━━╸━━━━ {i + 1}/500 {clock} • 0:03:45 1.98it/s v_num: 0 train_loss: 5.1"


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
    ("paddleclas", paddleclas_dynamic),
    ("paddleclas2020", paddleclas2020),
    ("paddleclas2021", paddleclas2021),
    ("paddleseg", paddleseg),
    ("paddleseg", paddleseg_2020),
    ("paddlevideo", paddlevideo),
    ("paddlevideo", paddlevideo_2020),
    ("paddlenlp-bert", paddlenlp_bert),
    ("paddlenlp-bert", paddlenlp_bert_2020),
    ("paddlenlp-transformer", paddlenlp_transformer),
    ("paddlenlp-trainer", paddlenlp_trainer),
    ("plsc", plsc),
    ("plsc2021", plsc2021),
    ("plsc2021", insightface),
    ("plsc2022", plsc2022),
    ("ngc-pytorch", ngc_pytorch),
    ("ngc-pytorch", ngc_pytorch_json),
    ("ngc-mxnet", ngc_mxnet),
    ("ngc-mxnet", ngc_mxnet_2020),
    ("ngc-mxnet", ngc_mxnet_json),
    ("ngc-tensorflow", ngc_tensorflow),
    ("ngc-tensorflow", ngc_tensorflow_json),
    ("ngc-nvlog", ngc_nvlog),
    ("ngc-tensorflow-bert", ngc_tensorflow_bert),
    ("ngc-tensorflow-bert", ngc_tensorflow_bert_json),
    ("ngc-transformer", ngc_transformer),
    ("mmseg", mmseg),
    ("mmseg", mmengine),
    ("mmseg", mmengine_epochs),
    ("mmcv-json", mmcv_json),
    ("mmcv-json", mmengine_json),
    ("tf2-timehistory", tf2_timehistory),
    ("tf2-timehistory", tf2_timehistory_2019),
    ("imagenet", imagenet),
    ("torchvision", torchvision),
    ("tsm", tsm),
    ("torchtitan", torchtitan),
    ("torchtitan", torchtitan_2024),
    ("megatron", megatron),
    ("megatron", megatron_rocm),
    ("megatron", megatron_ascend),
    ("megatron", gpt_neox),
    ("deepspeed", deepspeed),
    ("deepspeed2021", deepspeed2020),
    ("deepspeed2021", deepspeed2022),
    ("huggingface", huggingface),
    ("lightning", lightning),
    ("lightning", lightning_2020),
    ("lightning", lightning_rich),
    ("mlperf", mlperf),
    ("dlperf", dlperf),
)


def log(writer: Writer, *, iterations: int = 150, seconds: float = 0.5) -> str:
    """Return a log in which every iteration took as long."""
    return "".join(f"{writer(i, seconds)}\n" for i in range(iterations))
