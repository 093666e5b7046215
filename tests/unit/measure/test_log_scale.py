"""World size and batch: who says them, and what happens where nobody does or two disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.measure.logs import path_words
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_lines import (
    huggingface,
    imagenet,
    megatron,
    mmengine,
    tf2_timehistory,
    torchvision,
    tsm,
)
from tests.helpers.log_writer import BATCH, log
from tests.helpers.paddle_lines import paddleclas2020, paddleclas_dynamic, paddleseg


def read(path: Path, text: str, **options: object) -> LogResult:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return extract(path, ParseOptions(**options))  # type: ignore[arg-type]


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


def message(result: LogResult, code: str) -> str:
    (found,) = [problem.message for problem in result.problems if problem.code == code]
    return found


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def stamped(seconds: int, ips: float, cost: str) -> str:
    return "\n".join(
        f"2022-02-05 04:{i * seconds // 60:02d}:{i * seconds % 60:02d} [INFO]\t[TRAIN] epoch: 1, "
        f"iter: {i + 1}/150, loss: 0.6, {cost}ips: {ips:.4f} samples/sec"
        for i in range(150)
    )


def test_work_between_time_stamps_is_rate_times_seconds(nameless: Path) -> None:
    text = stamped(2, 5.0, "batch_cost: 2.0000, ")

    result = read(nameless, text, rule="dlperf-time", world_size=1)

    assert result.throughput == pytest.approx(5.0)


def test_iterations_between_time_stamps_are_no_work(nameless: Path) -> None:
    result = read(nameless, stamped(2, 5.0, ""), rule="dlperf-time", world_size=1)

    assert result.throughput is None
    assert "unknown-scale" in codes(result)
    assert read(nameless, stamped(2, 5.0, ""), world_size=1).throughput == pytest.approx(5.0)


CLAS_CONFIG = """[2022/08/05 01:28:59] ppcls INFO: DataLoader :
[2022/08/05 01:28:59] ppcls INFO:     Eval :
[2022/08/05 01:28:59] ppcls INFO:         sampler :
[2022/08/05 01:28:59] ppcls INFO:             batch_size : 64
[2022/08/05 01:28:59] ppcls INFO:     Train :
[2022/08/05 01:28:59] ppcls INFO:         sampler :
[2022/08/05 01:28:59] ppcls INFO:             batch_size : 16
"""


def test_the_batch_is_that_of_training(nameless: Path) -> None:
    result = read(nameless, CLAS_CONFIG + log(paddleclas_dynamic), world_size=8)

    assert result.batch_size_per_device == BATCH
    assert result.batch_size_from == "log"
    assert codes(result) == {"running-mean"}


def test_lines_that_contradict_a_batch_are_believed(tmp_path: Path) -> None:
    result = read(tmp_path / "x_gpu8_bs64.log", log(paddleclas_dynamic))

    assert result.batch_size_per_device == BATCH
    assert (result.world_size_from, result.batch_size_from) == ("path", "lines")
    assert "64" in message(result, "batch-size-mismatch")
    assert result.throughput == pytest.approx(8 * BATCH / 0.5)


def test_a_batch_of_all_cards_is_shared_among_them(nameless: Path) -> None:
    config = "TRAIN:\n    batch_size: 128\nVALID:\n    batch_size: 64\n"

    result = read(nameless, config + log(paddleclas2020), world_size=8)

    assert result.batch_size_per_device == BATCH
    assert "batch-size-mismatch" not in codes(result)


@pytest.mark.parametrize(
    "line",
    [
        "PADDLE_TRAINERS_NUM      {}",
        "using world size: {}, data-parallel size: 1",
        "--nnodes={} --nproc_per_node=4",
    ],
)
@pytest.mark.parametrize("chatter", [0, 30_000])
def test_runs_on_other_devices_in_one_log_are_refused(
    nameless: Path, line: str, chatter: int
) -> None:
    whole = log(megatron)
    half = whole.index("iteration       76")
    head, tail = whole[:half], whole[half:]
    between = "some words that are not of a run and take room in the log\n" * chatter

    result = read(nameless, f"{line.format(8)}\n{head}\n{between}{line.format(16)}\n{tail}")

    assert result.throughput is None
    assert "16" in message(result, "several-runs")


@pytest.mark.parametrize("chatter", [0, 30_000])
def test_a_run_that_starts_again_in_one_log_is_refused(nameless: Path, chatter: int) -> None:
    head = "using world size: 8, data-parallel size: 1"
    lines = log(megatron, iterations=400).splitlines()
    between = ["srun: error: task 0: Exited with exit code 1", *["words"] * chatter]

    again = read(nameless, "\n".join([head, *lines[:200], *between, head, *lines[200:]]))
    at_the_end = read(nameless, "\n".join([head, *lines, *between, head]))
    in_the_head = read(nameless, "\n".join([head, head, *between, head, *lines]))

    assert again.throughput is None
    assert "starts again" in message(again, "several-runs")
    assert at_the_end.throughput == in_the_head.throughput == pytest.approx(BATCH / 0.5)


def test_another_ranks_start_is_no_second_run(nameless: Path) -> None:
    lines = [f"[rank0]:{line}" for line in log(megatron).splitlines()]
    lines[:0] = ["[rank0]:using world size: 8"]
    lines[9:9] = ["[rank3]:using world size: 8"]

    assert read(nameless, "\n".join(lines)).throughput == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize(
    ("line", "world", "odd"),
    [
        ("+ torchrun --nnodes=4 --nproc_per_node=8 train.py", 32, False),
        ("+ torchrun --nnodes 4 --nproc_per_node 8 train.py", 32, False),
        ("  min_nodes        : 2\n  max_nodes        : 2\n  nproc_per_node   : 8", 16, False),
        ("+ torchrun --nproc_per_node 8 train.py", 8, True),
        ("+ torchrun --nnodes=1:4 --nproc_per_node=8 train.py", 8, True),
    ],
)
def test_devices_of_a_node_are_not_all(nameless: Path, line: str, world: int, odd: bool) -> None:
    result = read(nameless, f"{line}\n{log(paddleseg)}")

    assert result.world_size == world
    assert result.throughput == pytest.approx(world * BATCH / 0.5)
    assert ("one-node" in codes(result)) is odd


@pytest.mark.parametrize(
    ("path", "world", "batch"),
    [
        ("resnet18_c100.log", None, None),
        ("resnet50_cifar_c10.log", None, None),
        ("train_gpu3.log", None, None),
        ("train_gpu0.log", None, None),
        ("vit_b16_gpu8.log", None, None),
        ("vit_b16_fp32_gpu8.log", 8, None),
        ("log_gpu4.log", None, None),
        ("rank_c8.log", None, None),
        ("llama3-N2.log", None, None),
        ("llama3_bs4_bf16-N2.log", None, 4),
        ("segformer_mit-b5_amp_gpu4.log", 4, None),
        ("segformer_mit_b4_b16.log", None, 16),
        ("efficientnet_b0_gpu1_tf32.log", 1, None),
        ("efficientnet_b4_b64_fp32.log", None, 64),
        ("x_bs0_gpu8.log", None, None),
        ("vit_8gpus.log", 8, None),
        ("8gpu.log", 8, None),
        ("x_gpus6_bs4.log", 6, 4),
        ("2nodes_gpu8.log", None, None),
        ("1n8g/vit_b16_fp32_1.log", 8, 16),
        ("deeplabv3p_c32_fp32.log", 32, None),
        ("Deeplabv3_FP32_BS4-N32.log", 32, 4),
        ("hrnet_bs8_fp32_DP_N4C8_log", 32, 8),
        ("2n8g/rn50_b128_fp32_1.log", 16, 128),
        ("4nodes/8gpus.log", None, None),
        ("4-nodes/run1/8gpus.log", None, None),
        ("nodes4_gpus8.log", None, None),
        ("nnodes=4_8gpus.log", None, None),
        ("num_nodes_4_8gpus.log", None, None),
        ("4hosts_8gpus.log", None, None),
        ("node3_8gpus.log", None, None),
        ("4n/8gpus.log", None, None),
        ("runs_n3/8gpus.log", 8, None),
        ("node_0/8gpus.log", 8, None),
        ("4n_8gpus.log", None, None),
        ("N4_8gpus.log", None, None),
        ("4*8gpus.log", None, None),
        ("8gpus_per_node.log", None, None),
        ("4nodes/gpu8_bs4.log", None, 4),
        ("1node/8gpus.log", 8, None),
        ("nodes1_gpus8.log", 8, None),
        ("nodes4/4n8g/rn50_b128_fp32_1.log", 32, 128),
        ("global_bs256_8gpus.log", 8, None),
        ("global_train_bs256_gpu8.log", 8, None),
        ("effective_bs256_8gpus.log", 8, None),
        ("bs256_total_8gpus.log", 8, None),
        ("TOTAL-BS512-8gpus.log", 8, None),
        ("global_b256_8gpus.log", 8, None),
        ("mbs4_bs256_8gpus.log", 8, None),
        ("global_batch/bs256_8gpus.log", 8, None),
        ("globalnet_bs32_8gpus.log", 8, 32),
        ("eval_bs8_train_bs32_8gpus.log", 8, 32),
        ("train_bs32_eval_bs8_8gpus.log", 8, 32),
        ("val_bs1_8gpus_bs32.log", 8, 32),
        ("validation_b8_train_b32_8gpus.log", 8, 32),
        ("train_bs32_bs8_8gpus.log", 8, 32),
        ("train_eval_bs8_gpu8.log", 8, None),
        ("val_bs1_8gpus.log", 8, None),
        ("bs8_eval_8gpus.log", 8, None),
        ("bs8_eval_bs32_8gpus.log", 8, None),
        ("bs32_train_bs8_8gpus.log", 8, None),
        ("bs8_8gpus_bs32.log", 8, None),
        ("bs32_8gpus_bs32.log", 8, 32),
        ("bs32_train_8gpus.log", 8, 32),
        ("train_8gpus_bs32.log", 8, 32),
    ],
)
def test_words_of_a_path(path: str, world: int | None, batch: int | None) -> None:
    assert path_words.world_size(path) == world
    assert path_words.batch_size(path) == batch


def test_a_process_speed_of_mxnet_is_not_the_speed_of_all(nameless: Path) -> None:
    lines = [
        f"INFO:root:Epoch[0] Batch [{i}]\tSpeed: 2015.42 samples/sec\taccuracy=0.1"
        for i in range(20, 2000, 20)
    ]

    assert read(nameless, "\n".join(lines), world_size=8).format is None


@pytest.mark.parametrize(
    ("writer", "before", "devices"),
    [
        (tsm, "Namespace(arch='x', batch_size=128, gpus=None)", 8),
        (imagenet, "Namespace(arch='x', batch_size=128, gpus=None)", 8),
        (imagenet, "+ torchrun --nnodes=2 --nproc_per_node=8\nNamespace(x=1, batch_size=128)", 16),
        (tf2_timehistory, " 'batch_size': 128,\n", 8),
        (tf2_timehistory, " 'batch_size': 16,\n 'use_per_replica_batch_size': True}\n", 8),
    ],
)
def test_a_batch_is_of_one_device_or_of_all_by_the_format(
    nameless: Path, writer: object, before: str, devices: int
) -> None:
    text = f"{before}\n{log(writer)}"  # type: ignore[arg-type]

    result = read(nameless, text, world_size=devices)

    assert result.batch_size_per_device == BATCH


def test_a_paths_batch_is_not_used_where_it_may_be_of_all(tmp_path: Path) -> None:
    loose = read(tmp_path / "tsm_gpu8_b64.log", log(tsm))
    laid_out = read(tmp_path / "1n8g/tsm_b64_fp32_1.log", log(tsm))
    alone = read(tmp_path / "tsm_gpu1_b64.log", log(tsm))

    assert loose.throughput is None
    assert "one device or of all" in message(loose, "unknown-scale")
    assert laid_out.throughput == pytest.approx(8 * 64 / 0.5)
    assert alone.throughput == pytest.approx(64 / 0.5)


TRAINER = """  Instantaneous batch size per device = 8
  Total train batch size (w. parallel, distributed & accumulation) = 64
  Gradient Accumulation steps = 4
"""


def test_data_parallel_ways_are_not_all_devices(tmp_path: Path) -> None:
    result = read(tmp_path / "llama_tp4_8gpus.log", TRAINER + log(huggingface, seconds=1.0))

    assert result.world_size == 8
    assert result.throughput == pytest.approx(64)
    assert "world-size-mismatch" not in codes(result)


def test_a_path_that_no_data_parallel_run_fits_is_a_problem(tmp_path: Path) -> None:
    result = read(tmp_path / "llama_1gpu.log", TRAINER + log(huggingface, seconds=1.0))

    assert result.world_size == 2
    assert "world-size-mismatch" in codes(result)


def test_a_sampler_may_be_before_the_batch(nameless: Path) -> None:
    config = """train_dataloader = dict(
    batch_sampler=dict(type='AspectRatioBatchSampler', batch_size=99),
    dataset=dict(
        pipeline=dict(
            batch_size=77)),
    batch_size=16,
"""

    result = read(nameless, config + log(mmengine), world_size=1)

    assert result.throughput == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize(
    ("options", "missing", "known"),
    [
        ({"world_size": 8}, "the batch size", "world size"),
        ({"batch_size_per_device": 8}, "the world size", "batch size"),
    ],
)
def test_the_sentence_names_what_is_missing(
    nameless: Path, options: dict[str, int], missing: str, known: str
) -> None:
    sentence = message(read(nameless, log(torchvision), **options), "unknown-scale")

    assert missing in sentence
    assert known not in sentence


BAR_OF_YOLO = "        1/9      2.51G      1.2      2.3      1.4         12        640:  45%|██| "
BAR = " 10%|#    | "


@pytest.mark.parametrize(
    ("head", "bar", "batch"),
    [
        (
            "engine/trainer: task=detect, mode=train, epochs=9, batch=16, imgsz=640",
            BAR_OF_YOLO,
            16,
        ),
        ("train: weights=yolov5s.pt, cfg=, epochs=9, batch_size=24, imgsz=640", BAR_OF_YOLO, 24),
        ("\\        /    Data Parallel GPUs = 1 | Total batch size (2 x 4 x 1) = 8", BAR, 8),
        ("\\        /    Total batch size = 1,024 | Total steps = 150", BAR, 1024),
        (
            "***** Running training *****\n  Instantaneous batch size per device = 8\n"
            "  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
            "  Gradient Accumulation steps = 1\n  Total optimization steps = 150",
            f"Steps: {BAR}",
            32,
        ),
    ],
)
def test_a_batch_of_all_devices_needs_no_world_size(
    nameless: Path, head: str, bar: str, batch: int
) -> None:
    states = [f"{bar}{i}/150 [{i // 60:02d}:{i % 60:02d}<08:03,  1.00it/s]" for i in range(1, 151)]
    loss = "{'loss': 1.5, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.5}"
    text = "\r".join([*states[:75], "", *states[75:]])

    result = read(nameless, f"{head}\n{text}\n{loss if bar == BAR else ''}\n")

    assert result.throughput == pytest.approx(batch, rel=0.02)


def test_the_batch_of_all_devices_is_that_of_the_settings_of_detectron2(nameless: Path) -> None:
    line = (
        "  eta: 0:02:30  iter: {}  total_loss: 6.9  time: 0.5  last_time: 0.5  data_time: 0.001\n"
    )
    text = "SOLVER:\n  IMS_PER_BATCH: 16\n"
    text += "".join(line.format(i) for i in range(19, 1000, 20))

    assert read(nameless, text).throughput == pytest.approx(32.0)


def paddlenlp(samples: float) -> str:
    """Return prints 10 updates of 0.2 s apart."""
    return "\n".join(
        f"[2025-03-04 10:00:00,123] [    INFO] - loss: 11.0, learning_rate: 2.99e-05, "
        f"global_step: {step}, interval_runtime: 2.0, interval_samples_per_second: {samples}, "
        "interval_steps_per_second: 5.0, epoch: 0.0265"
        for step in range(10, 210, 10)
    )


@pytest.mark.parametrize(
    ("batch", "samples", "rate"),
    [
        (8, 320.0, 320.0),
        # Versions of 2022 count one update for all ten
        (8, 32.0, 320.0),
        # Gradients are accumulated
        (4, 320.0, None),
        (16, 320.0, None),
    ],
)
def test_samples_and_steps_of_a_line_contradict_a_batch(
    nameless: Path, batch: int, samples: float, rate: float | None
) -> None:
    result = read(nameless, paddlenlp(samples), world_size=8, batch_size_per_device=batch)

    assert result.throughput == (None if rate is None else pytest.approx(rate))
    assert ("unknown-scale" in codes(result)) is (rate is None)


def test_an_impossible_batch_of_lines_is_not_compared(nameless: Path) -> None:
    text = "\n".join(
        f"Training epoch 0, iteration {step}/149 | lr: 3e-05 | consumed_samples: {16 * step} | "
        f"global_batch_size: 1e308 | global_step: {step} | reduced_train_loss: 1.2 | "
        "train_step_timing in s: 0.5"
        for step in range(100)
    )

    result = read(nameless, text, world_size=8, batch_size_per_device=2)

    assert result.throughput == pytest.approx(32.0)
