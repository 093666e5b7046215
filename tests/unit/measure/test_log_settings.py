"""What a log says of its own settings, also behind what a launcher puts before each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.judged_logs import judged
from tests.helpers.log_lines import torchtitan
from tests.unit.measure.test_log_scale import read

#: What comes before the line of a place.
TAGS: dict[str, Callable[[int], str]] = {
    "none": lambda _: "",
    "srun": lambda _: "0: ",
    "srun of many": lambda _: "12: ",
    "torchrun": lambda _: "[default0]:",
    "rank": lambda _: "[rank0]:",
    "mpirun": lambda _: "[1,0]<stdout>:",
    "kubectl": lambda _: "[pod/mmdet-0/train] ",
    "compose": lambda _: "trainer-1  | ",
    "docker": lambda i: f"2025-06-11T09:{i // 60:02d}:{i % 60:02d}.12345678{i % 10}Z ",
    "cri": lambda i: f"2025-06-11T09:{i // 60:02d}:{i % 60:02d}.1+00:00 stdout F ",
    "docker and torchrun": lambda i: f"2025-06-11T09:{i // 60:02d}:{i % 60:02d}.{i}Z [default0]:",
}


def tagged(lines: list[str], tag: Callable[[int], str]) -> str:
    return "\n".join(tag(i) + line for i, line in enumerate(lines))


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS)
def test_settings_over_several_lines_are_read_behind_a_tag(
    tmp_path: Path, tag: Callable[[int], str]
) -> None:
    lines = [
        "2025/06/11 09:00:00 - mmengine - INFO - Config:",
        "    GPU number: 8",
        "test_dataloader = dict(",
        "    batch_size=1,",
        "    num_workers=2)",
        "train_dataloader = dict(",
        "    batch_sampler=dict(type='AspectRatioBatchSampler'),",
        "    batch_size=2,",
        "    num_workers=2)",
    ]
    lines += [
        f"2025/06/11 09:{i // 60:02d}:{i % 60:02d} - mmengine - INFO - Epoch(train)  [1]"
        f"[{50 * i:5d}/7330]  base_lr: 2.0e-02 lr: 2.0e-02  eta: 10:00:00  time: 0.0200  "
        "data_time: 0.0010  memory: 5000  loss: 1.2"
        for i in range(1, 60)
    ]

    result = read(tmp_path / "train.log", tagged(lines, tag))

    assert (result.batch_size_per_device, result.world_size) == (2, 8)
    assert result.throughput == pytest.approx(16 / 0.02)


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS)
def test_a_precision_at_a_lines_begin_is_read_behind_a_tag(
    tmp_path: Path, tag: Callable[[int], str]
) -> None:
    lines = ["  bf16 ............................................ True"]
    lines += [
        f" iteration {i:8d}/    1000 | elapsed time per iteration (ms): 500.0 | "
        "global batch size:    64 | lm loss: 2.3E+00 |"
        for i in range(1, 100)
    ]

    result = read(tmp_path / "train.log", tagged(lines, tag))

    assert result.precision == "bf16"


def titan(length: int) -> str:
    head = (
        "[rank0]:[titan] 2025-06-11 09:00:00,000 - root - INFO - Trainer is initialized with "
        "local batch size 2, global batch size 16, gradient accumulation steps 1, "
        f"sequence length {length}, total steps 1000 (warmup 200)\n"
    )
    return head + "".join(f"{torchtitan(i, 1.0)}\n" for i in range(200))


def yolo(settings: str) -> str:
    head = f"engine/trainer: task=detect, mode=train, model=yolov8n.pt, {settings}\n"
    return head + "".join(
        "\r        1/3      2.51G      1.234      2.345      1.456         12        640:   "
        f"{i // 3}%|#         | {i}/300 [{i // 2 // 60:02d}:{i // 2 % 60:02d}<01:14,  2.00it/s]"
        for i in range(1, 301)
    )


@pytest.mark.parametrize(
    ("base", "now", "difference"),
    [
        (titan(8192), titan(2048), "sequence length: 2048, was 8192"),
        (titan(8192), titan(8192), ""),
        (
            yolo("batch=16, imgsz=640, device=0"),
            yolo("batch=16, imgsz=320, device=0"),
            "image size: 320, was 640",
        ),
        (
            yolo("batch=16, device=0, dfl=1.5, imgsz=640, iou=0.7"),
            yolo("batch=16, device=0,1, dfl=1.5, imgsz=640, iou=0.7"),
            "devices: 2, was 1",
        ),
        (
            yolo("batch=16, device=[0, 1], imgsz=640, iou=0.7"),
            yolo("batch=16, device=0,1,2,3, imgsz=640, iou=0.7"),
            "devices: 4, was 2",
        ),
        (
            yolo("batch=16, imgsz=640, device=0"),
            yolo("batch=32, imgsz=640, device=0"),
            "batch size per device: 32, was 16",
        ),
        (yolo("batch=16, device=0, imgsz=640"), yolo("batch=16, device=0, imgsz=640"), ""),
        (yolo("batch=16, device=None, imgsz=640"), yolo("batch=16, device=, imgsz=640"), ""),
    ],
)
def test_settings_that_both_logs_say_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, now: str, difference: str
) -> None:
    for name, text in (("base.log", base), ("now.log", now)):
        (tmp_path / name).write_text(text, encoding="utf-8")

    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log")

    assert (values["verdict"] == "incomparable") is bool(difference)
    assert difference in values["reason"]
