"""Lines of programs of vision and of time series, by their format strings."""

from __future__ import annotations

from tests.helpers.log_writer import BATCH, tqdm_clock


def detectron2(i: int, s: float) -> str:
    return (
        f"[12/22 22:29:54 d2.utils.events]:  eta: 0:02:30  iter: {i}  total_loss: 7.109  "
        f"loss_cls: 0.5  time: {s:.4f}  last_time: {s:.4f}  data_time: 0.0010  "
        "last_data_time: 0.0010   lr: 0.002  max_mem: 2706M"
    )


def detectron2_2019(i: int, s: float) -> str:
    return (
        f"[12/22 22:29:54 d2.utils.events]:  eta: 0:02:30  iter: {i}  total_loss: 7.109  "
        f"loss_cls: 0.5  time: {s:.4f}  data_time: 0.0010  lr: 0.002  max_mem: 2706M"
    )


def detectron2_wrapped(i: int, s: float) -> str:
    head, _, tail = detectron2_2019(i, s).partition("  time: ")
    return f"{head}\n  time: {tail}"


def ultralytics(i: int, s: float) -> str:
    return (
        f"\r        1/1      2.51G      1.234      2.345      1.456         12        640:  "
        f"45%|████▌     | {i + 1}/150 [{tqdm_clock((i + 1) * s)}<00:15,  5.5it/s]"
    )


def ultralytics_8_3(i: int, s: float) -> str:
    seconds = round((i + 1) * s)
    clock = f"{seconds:.1f}s" if seconds < 60 else tqdm_clock(seconds).lstrip("0")
    return (
        f"\r        1/1      2.51G      1.234      2.345      1.456         12        640: "
        f"89% ━━━━━━━━━━╸─ {i + 1}/150 1.5s/it {clock}<11.7s"
    )


def keras(i: int, s: float) -> str:
    head = "Epoch 1/1\n" if i == 0 else ""
    return f"{head}{i + 1}/150 ━━╸━━━━ 10s {s * 1000:.0f}ms/step - accuracy: 0.1 - loss: 2.3012"


def keras_2(i: int, s: float) -> str:
    head = "Epoch 1/1\n" if i == 0 else ""
    return f"{head}{i + 1}/150 [==>...] - 12s {s * 1000:.0f}ms/step - loss: 2.3012 - acc: 0.1"


def _left(i: int, s: float) -> str:
    # One second too many at most, and none too few: it is cut to whole ones
    left = int((300 - i - 1) * s)
    minutes, seconds = divmod(left, 60)
    if left > 3600:
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}" if left > 60 else f"{left}s"


def keras_seconds(i: int, s: float) -> str:
    head = "Epoch 1/1\n" if i == 0 else ""
    return f"{head}{i + 1}/300 ━━╸━━━━ {_left(i, s)} {s:.0f}s/step - accuracy: 0.1 - loss: 2.3012"


def keras_2_seconds(i: int, s: float) -> str:
    head = "Epoch 1/1\n" if i == 0 else ""
    return f"{head}  {i + 1}/300 [==>...] - ETA: {_left(i, s)} - loss: 2.3012 - acc: 0.1"


def tf_slim(i: int, s: float) -> str:
    line = f"INFO:tensorflow:global step {i + 1}: loss = 6.5264 ({s:.3f} sec/step)"
    return f"{line}\nINFO:tensorflow:global_step/sec: 0.0339311"


def ijepa(i: int, s: float) -> str:
    return (
        f"INFO:root:[1, {i:5d}] loss: 0.123 masks: 124.0 38.0 [wd: 4.00e-02] [lr: 2.00e-04] "
        f"[mem: 5.05e+04] ({s * 1000:.1f} ms)"
    )


def vjepa(i: int, s: float) -> str:
    return (
        f"[INFO    ][2024-02-10 01:02:03][root][train] [1, {i:5d}] loss: 0.523 | p0.523 r0.000 | "
        "input_var: 0.999 0.999 | masks: [96, 60] [wd: 4.00e-02] [lr: 2.00e-04] [mem: 5.05e+04] "
        f"[gpu: 450.0 ms][wall: {s * 1000:.1f} ms]"
    )


def vjepa_2(i: int, s: float) -> str:
    return (
        f"[1, {i:5d}] loss: 0.523 masks: [96, 60] [wd: 4.00e-02] [lr: 2.00e-04] [mem: 5.05e+04] "
        f"[iter: {s * 1000:.1f} ms] [gpu: 450.0 ms] [data: 2.0 ms]"
    )


def deep_text_recognition(i: int, s: float) -> str:
    return (
        f"[{i + 1}/150] Train loss: 0.00301, Valid loss: 0.00838, "
        f"Elapsed_time: {3 + (i + 1) * s:.5f}"
    )


def informer(i: int, s: float) -> str:
    return (
        f"\titers: {i + 1}, epoch: 1 | loss: 0.1245885\n"
        f"\tspeed: {s:.4f}s/iter; left time: 69436.6002s"
    )


def dinov2(i: int, s: float) -> str:
    return (
        f"I20250304 10:11:12 12345 dinov2 helpers.py:102] Training  [{i:>6d}/150]  "
        "eta: 1 day, 3:00:12  lr: 0.0001 (0.0001)  total_loss: 11.9010 (12.0100)  "
        f"time: {s:.6f}  data: 0.000300  max mem: 22345"
    )


def dinov2_json(i: int, s: float) -> str:
    numbers = f'"iteration": {i}, "iter_time": {s}, "data_time": 0.0003, "lr": 0.0001'
    return f'{{{numbers}, "total_loss": 11.9, "dino_local_crops_loss": 8.2}}'


def open_clip(i: int, s: float) -> str:
    return (
        f"2025-03-04,10:11:12 | INFO | Train Epoch: 0 [{(i + 1) * BATCH:>8d}/{150 * BATCH} "
        f"({(i + 1) / 1.5:.0f}%)] Data (t): 0.003 Batch (t): {s:.3f}, {BATCH / s:#g}/s, "
        f"{BATCH / s / 8:#g}/s/gpu LR: 0.000010 Logit Scale: 14.286 "
        "Contrastive_loss: 4.1000 (4.2000) Loss: 4.1000 (4.2000)"
    )


def timm(i: int, s: float) -> str:
    rate = f"{BATCH / s:>7.2f}/s"
    return (
        f"Train: 0 [{i:>4d}/150 ({min(100.0, (i + 1) / 1.5):>3.0f}%)]  Loss: 6.95 (6.94)  "
        f"Time: {s:.3f}s, {999:>7.2f}/s  ({s:.3f}s, {rate})  LR: 1.000e-06  Data: 0.012 (0.020)"
    )
