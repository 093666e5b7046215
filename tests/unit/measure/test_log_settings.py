"""What a log says of its own settings, also behind what a launcher puts before each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.judged_logs import judged
from tests.helpers.language_lines import composer_time
from tests.helpers.log_lines import huggingface, torchtitan
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


def classify(settings: str, size: int = 224) -> str:
    """Return the bars of ``yolo classify``, with what is printed before them."""
    return settings + "".join(
        f"\r        1/3      1.2G      0.634         64        {size}:   "
        f"{i // 3}%|#         | {i}/300 [{i // 2 // 60:02d}:{i // 2 % 60:02d}<01:14,  2.00it/s]"
        for i in range(1, 301)
    )


def horovod(batch: int, devices: int) -> str:
    """https://github.com/horovod/horovod/blob/master/examples/pytorch/pytorch_synthetic_benchmark.py"""
    head = (
        f"Model: resnet50\nBatch size: {batch}\nNumber of GPUs: {devices}\nRunning warmup...\n"
        "Running benchmark...\n"
    )
    return head + "".join(f"Iter #{i}: 298.{i % 7} img/sec per GPU\n" for i in range(100))


def cnn_benchmark(batch: int, devices: str) -> str:
    count = devices.count(",") + 1
    variables = "horovod" if "horovod" in devices else "parameter_server"
    head = (
        "TensorFlow:  1.14\nModel:       resnet50\nMode:        training\n"
        f"Batch size:  {batch * count} global\n             {batch} per device\n"
        f"Devices:     [{devices}]\nVariables:   {variables}\nStep\tImg/sec\ttotal_loss\n"
    )
    return head + "".join(
        f"{i}\timages/sec: 139.{i // 10 % 7} +/- 0.1 (jitter = 0.3)\t8.137\n"
        for i in (1, *range(10, 201, 10))
    )


def unsloth(*batches: int) -> str:
    """Return Unsloth's banner, as often as it is printed, and the Trainer's bar.

    https://github.com/unslothai/unsloth/issues/3066
    """
    head = "".join(
        "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n"
        f"O^O/ \\_/ \\    Batch size per device = {batch} | Gradient accumulation steps = 2\n"
        "\\        /    Data Parallel GPUs = 1 | "
        f"Total batch size ({batch} x 2 x 1) = {2 * batch}\n"
        for batch in batches
    )
    return head + "".join(f"{huggingface(i, 1.0)}\n" for i in range(150))


def foundry(batch: int, length: int) -> str:
    head = f"Config:\nglobal_train_batch_size: {batch}\nmax_seq_len: {length}\nn_gpus: 8\n"
    return head + "".join(f"{composer_time(i, 1.0)}\n" for i in range(150))


AUTO = "AutoBatch: Using batch-size {} for CUDA:0 9.5G/15.0G (63%)\n"
AUTO_SETTINGS = "engine/trainer: task=detect, mode=train, batch=-1, imgsz=640, device=0\n"
CLASSIFY_5 = (
    "classify/train: model=yolov5s-cls.pt, data=x, epochs=10, batch_size=64, imgsz={}, cos_lr=0\n"
)
LOADERS = "Image sizes {} train, {} val\nUsing 8 dataloader workers\n"


@pytest.mark.parametrize(
    ("base", "now", "difference"),
    [
        (
            AUTO_SETTINGS + AUTO.format(16) + yolo("x"),
            AUTO_SETTINGS + AUTO.format(44) + yolo("x"),
            "batch size per device: 44, was 16",
        ),
        (
            AUTO_SETTINGS
            + "AutoBatch: ⚠️ intended for CUDA, using default batch-size 16\n"
            + yolo("x"),
            AUTO_SETTINGS + AUTO.format(32) + yolo("x"),
            "batch size per device: 32, was 16",
        ),
        (
            classify("engine/trainer: task=classify, mode=train, batch=64, imgsz=224\n"),
            classify("engine/trainer: task=classify, mode=train, batch=64, imgsz=128\n", 128),
            "image size: 128, was 224",
        ),
        (classify(LOADERS.format(224, 224)), classify(LOADERS.format(128, 128)), "image size"),
        (classify("", 224), classify("", 128), "image size: 128, was 224"),
        (classify("", 224), classify("", 224), ""),
        (classify(CLASSIFY_5.format(224)), classify(CLASSIFY_5.format(128)), "image size"),
        (cnn_benchmark(32, "'/gpu:0'"), cnn_benchmark(64, "'/gpu:0'"), "64, was 32"),
        (cnn_benchmark(32, "'/gpu:0'"), cnn_benchmark(32, "'/gpu:0', '/gpu:1'"), "devices: 2"),
        (cnn_benchmark(32, "'/gpu:0'"), cnn_benchmark(32, "'/gpu:0'"), ""),
        (unsloth(16), unsloth(14), "28, was 32"),
        (unsloth(16), unsloth(16, 14), "28, was 32"),
        (unsloth(14), unsloth(16, 14), ""),
        (foundry(512, 2048), foundry(256, 2048), "work of an iteration: 256, was 512"),
        (foundry(512, 2048), foundry(512, 4096), "sequence length: 4096, was 2048"),
        (foundry(512, 2048), foundry(512, 2048), ""),
        (
            titan(8192),
            titan(8192).replace("global batch size 16", "global batch size 32"),
            "work of an iteration: 32, was 16",
        ),
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

    # Bars alone say no batch.
    options = ("--batch_size_per_device=64", "--world_size=1") if "1.2G" in base else ()
    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log", *options)

    assert (values["verdict"] == "incomparable") is bool(difference)
    assert difference in values["reason"]


@pytest.mark.parametrize(
    ("base", "now", "difference"),
    [
        (horovod(32, 8), horovod(64, 8), "batch size per device: 64, was 32"),
        (horovod(32, 8), horovod(32, 4), "devices: 4, was 8"),
        (horovod(32, 8), horovod(32, 8), ""),
    ],
)
def test_sizes_of_a_benchmark_are_compared_where_a_pattern_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, now: str, difference: str
) -> None:
    for name, text in (("base.log", base), ("now.log", now)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    regex = r"Iter #(?P<step>\d+): (?P<rate>[\d.]+) img/sec per GPU"
    options = (f"--pattern={regex}", "--scope=device", "--unit=images")

    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log", *options)

    assert (values["verdict"] == "incomparable") is bool(difference)
    assert difference in values["reason"]


@pytest.mark.parametrize(
    ("devices", "rate"),
    [
        ("'/gpu:0'", 139),
        ("'/gpu:0', '/gpu:1'", 139),
        ("'horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3'", 4 * 139),
        ("'/job:worker/replica:0/task:0/gpu:0', '/job:worker/replica:0/task:0/gpu:1'", 2 * 139),
    ],
)
def test_a_cnn_benchmark_prints_the_rate_of_a_process(
    tmp_path: Path, devices: str, rate: float
) -> None:
    text = cnn_benchmark(64, devices)
    if "job:worker" in devices:
        text = text.replace("128 global", "256 global")  # of two workers

    result = read(tmp_path / "train.log", text)

    assert result.format == "tf-cnn-benchmarks"
    assert (result.batch_size_per_device, result.unit) == (64, "images")
    assert result.throughput == pytest.approx(rate, rel=0.05)
