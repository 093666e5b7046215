"""Lines of the other programs, by their format strings, and every writer of lines."""

from __future__ import annotations

import json

from tests.helpers.language_lines import (
    build_nanogpt,
    composer,
    composer_samples,
    composer_time,
    composer_time_samples,
    deepspeed_chat,
    deepspeed_chat_2024,
    fairseq,
    fairseq_bar,
    fairseq_json,
    internevo,
    internlm,
    lit_gpt_2023,
    litgpt,
    llamafactory,
    llmc,
    llmc_python,
    maxtext,
    modded_nanogpt,
    nanochat,
    nanogpt,
    nemo,
    nemo_bar,
    nemo_bar_before,
    nemo_samples,
    olmo,
    olmo_core,
    swift,
    swift_json,
    verl,
    verl_numpy,
)
from tests.helpers.log_writer import BATCH, Writer, tqdm_clock
from tests.helpers.nvidia_lines import (
    ngc_gnn,
    ngc_mxnet,
    ngc_mxnet_2020,
    ngc_mxnet_json,
    ngc_nvlog,
    ngc_pytorch,
    ngc_pytorch_json,
    ngc_tensorflow,
    ngc_tensorflow_bert,
    ngc_tensorflow_bert_json,
    ngc_tensorflow_json,
    ngc_transformer,
)
from tests.helpers.paddle_lines import (
    insightface,
    paddleclas,
    paddleclas2020,
    paddleclas2021,
    paddleclas_dynamic,
    paddlenlp_bert,
    paddlenlp_bert_2020,
    paddlenlp_trainer,
    paddlenlp_transformer,
    paddleseg,
    paddleseg_2020,
    paddlevideo,
    paddlevideo_2020,
    plsc,
    plsc2021,
    plsc2022,
)
from tests.helpers.vision_lines import (
    deep_text_recognition,
    detectron2,
    detectron2_2019,
    detectron2_wrapped,
    dinov2,
    dinov2_json,
    ijepa,
    informer,
    keras,
    keras_2,
    open_clip,
    tf_slim,
    timm,
    ultralytics,
    ultralytics_8_3,
    vjepa,
    vjepa_2,
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


def tf_cnn_benchmarks(i: int, s: float) -> str:
    return f"{i + 1}\timages/sec: {BATCH / s:.1f} +/- 0.1 (jitter = 0.3)\t8.137"


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


def megatron_deepspeed_2022(i: int, s: float) -> str:
    return (
        f" iteration {i + 1:8d}/     150 | consumed samples: {BATCH * (i + 1):12d} | "
        f"elapsed time per iteration (s): {s:.2f} | learning rate: 6.000E-05 | "
        f"global batch size: {BATCH:5d} | lm loss: 7.399415E+00 | samples per second: "
        f"{BATCH / s:.3f} | TFLOPs: 140.10 |"
    )


def gpt_neox(i: int, s: float) -> str:
    return (
        f" samples/sec: {BATCH / s:.4f} | iteration {i + 1:8d}/{150:8d} | "
        f"elapsed time per iteration (ms): {s * 1000:.1f} | learning rate: 2.1E-06 | "
        "approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 |"
    )


def deepspeed(i: int, s: float) -> str:
    return (
        f"[2023-10-31 08:58:33,237] [INFO] [timer.py:260:stop] epoch=0/micro_step={i + 1}/"
        f"global_step={i + 1}, RunningAvgSamplesPerSec={BATCH / s}, "
        f"CurrSamplesPerSec={BATCH / s}, "
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
    return (
        f"\r 10%|#    | {i + 1}/150 [{tqdm_clock((i + 1) * s)}<08:03,  1.97it/s]"
        "\n{'loss': '2.075', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.04'}"
    )


def lightning(i: int, s: float) -> str:
    return (
        f"Epoch 0:  10%|#   | {i + 1}/500 [{tqdm_clock((i + 1) * s)}<03:45, "
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


def tqdm(i: int, s: float) -> str:
    clock = tqdm_clock((i + 1) * s)
    return f"\rEpoch 1/400 train:  39%|###9      | {i + 1}/150 [{clock}<00:12, 127.70it/s]"


def tqdm_named_after(i: int, s: float) -> str:
    bar = tqdm(i, s).replace("Epoch 1/400 train", "Train epoch [1/400]")
    return bar.replace("it/s]", "it/s, loss=0.12]")


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


def mlperf_event(key: str, value: object, time_ms: int = 1, **metadata: object) -> str:
    event = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key}
    return f":::MLLOG {json.dumps({**event, 'value': value, 'metadata': metadata})}"


_MLPERF_BATCH = f"{mlperf_event('global_batch_size', BATCH)}\n"


def mlperf_step_time(i: int, s: float) -> str:
    value = {"train_step_time": s, "reduced_train_loss": 8.25}
    line = mlperf_event("tracked_stats", value, step=float(i), samples_count=(i + 1.0) * BATCH)
    return line if i else f"{_MLPERF_BATCH}{line}"


def mlperf_block_time(i: int, s: float) -> str:
    stats = mlperf_event("tracked_stats", {"train_step_time": s}, samples_count=BATCH)
    start = mlperf_event("block_start", None, samples_count=BATCH, step=i)
    stop = mlperf_event("block_stop", None, samples_count=BATCH, step=i + 1)
    return f"{'' if i else _MLPERF_BATCH}{start}\n{stats}\n{stop}"


def mlperf_block(i: int, s: float) -> str:
    at = 10_000 * i
    start = mlperf_event("block_start", None, at, samples_count=i * BATCH)
    stop = mlperf_event("block_stop", None, at + round(1000 * s), samples_count=(i + 1) * BATCH)
    return f"{'' if i else _MLPERF_BATCH}{start}\n{stop}"


def mlperf_token_block(i: int, s: float) -> str:
    at, tokens = 10_000 * i, 2048 * BATCH
    head = f"{_MLPERF_BATCH}{mlperf_event('max_sequence_length', 2048)}\n"
    first = {"first_epoch_num": i * tokens}
    start = mlperf_event("block_start", None, at, epoch_count=tokens, **first)
    stop = mlperf_event("block_stop", None, at + round(1000 * s), **first)
    return f"{'' if i else head}{start}\n{stop}"


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
    ("ngc-gnn", ngc_gnn),
    ("mmseg", mmseg),
    ("mmseg", mmengine),
    ("mmseg", mmengine_epochs),
    ("mmcv-json", mmcv_json),
    ("mmcv-json", mmengine_json),
    ("tf2-timehistory", tf2_timehistory),
    ("tf2-timehistory", tf2_timehistory_2019),
    ("imagenet", imagenet),
    ("torchvision", torchvision),
    ("timm", timm),
    ("tf-cnn-benchmarks", tf_cnn_benchmarks),
    ("tsm", tsm),
    ("torchtitan", torchtitan),
    ("torchtitan", torchtitan_2024),
    ("megatron", megatron),
    ("megatron", megatron_rocm),
    ("megatron", megatron_ascend),
    ("megatron", gpt_neox),
    ("megatron", megatron_deepspeed_2022),
    ("deepspeed", deepspeed),
    ("deepspeed2021", deepspeed2020),
    ("deepspeed2021", deepspeed2022),
    ("huggingface", huggingface),
    ("lightning", lightning),
    ("lightning", lightning_2020),
    ("lightning", lightning_rich),
    ("tqdm", tqdm),
    ("tqdm", tqdm_named_after),
    ("mlperf", mlperf),
    ("mlperf", mlperf_step_time),
    ("mlperf", mlperf_block_time),
    ("mlperf", mlperf_block),
    ("mlperf", mlperf_token_block),
    ("dlperf", dlperf),
    ("nanochat", nanochat),
    ("nanochat", build_nanogpt),
    ("nanogpt", nanogpt),
    ("modded-nanogpt", modded_nanogpt),
    ("llm.c", llmc),
    ("llm.c", llmc_python),
    ("maxtext", maxtext),
    ("nemo", nemo),
    ("nemo", nemo_samples),
    ("nemo", nemo_bar),
    ("nemo", nemo_bar_before),
    ("olmo", olmo),
    ("olmo", olmo_core),
    ("composer", composer),
    ("composer-samples", composer_samples),
    ("composer-time", composer_time),
    ("composer-time-samples", composer_time_samples),
    ("litgpt", litgpt),
    ("litgpt", lit_gpt_2023),
    ("internevo", internevo),
    ("internevo", internlm),
    ("fairseq", fairseq),
    ("fairseq", fairseq_bar),
    ("fairseq", fairseq_json),
    ("verl", verl),
    ("verl", verl_numpy),
    ("deepspeed-chat", deepspeed_chat),
    ("deepspeed-chat", deepspeed_chat_2024),
    ("ms-swift", swift),
    ("ms-swift", swift_json),
    ("llamafactory", llamafactory),
    ("detectron2", detectron2),
    ("detectron2-2019", detectron2_2019),
    ("detectron2-2019", detectron2_wrapped),
    ("ultralytics", ultralytics),
    ("ultralytics", ultralytics_8_3),
    ("keras", keras),
    ("keras", keras_2),
    ("tf-slim", tf_slim),
    ("ijepa", ijepa),
    ("vjepa", vjepa),
    ("vjepa", vjepa_2),
    ("deep-text-recognition", deep_text_recognition),
    ("dinov2", dinov2),
    ("dinov2", dinov2_json),
    ("open-clip", open_clip),
    ("informer", informer),
)
