"""Lines of NVIDIA's examples, by their format strings."""

from __future__ import annotations

import json

from tests.helpers.log_writer import BATCH


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


def ngc_gnn(i: int, s: float) -> str:
    event = {"event_type": "POINT_IN_TIME", "key": "global_batch_size", "value": BATCH}
    head = f"0: :::MLLOG {json.dumps({**event, 'metadata': {}})}\n" if i == 0 else ""
    return (
        f"{head}0: DLL 2025-04-29 16:53:38.473307 - Iteration {i} | train_acc : 0.0000 % | "
        f"iteration_time : {s * 1000:.2f} ms | train_loss : 7.9961  | last_iter_used_cuda_graph : "
        "True "
    )
