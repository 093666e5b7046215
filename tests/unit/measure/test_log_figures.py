"""Memory, TFLOP/s, MFU and the norm of the gradients, as a log prints them beside its speed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from pytest_dlperf.measure.logs.declare import FIGURES
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.spans import Figures
from pytest_dlperf.measure.logs.windows import KEPT, MOST_WINDOWS, LogWindow, LogWindows
from tests.helpers.log_lines import (
    deepspeed,
    mmcv_json,
    mmengine,
    mmseg,
    torchtitan,
    torchtitan_2024,
    torchvision,
)
from tests.helpers.log_lines import megatron as megatron_line
from tests.helpers.log_writer import Writer

GIB = 2**30
MIB = 2**20


def megatron(i: int, s: float) -> str:
    norm = "nan" if i == 5 else f"{1 + i % 3:.3f}"
    return megatron_line(i, s).replace(
        "| learning rate",
        "| hip mem usage/free/total/usage_ratio: 153.50GB/102.47GB/255.98GB/60.09% | throughput "
        f"per GPU (TFLOP/s/GPU): {500 + i % 3}.5/568.0 | grad norm: {norm} | learning rate",
    )


def read(tmp_path: Path, lines: list[str]) -> LogResult:
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    return extract(path, ParseOptions())


@pytest.mark.parametrize(
    ("writer", "figures"),
    [
        (megatron, Figures(peak_memory_bytes=153.5 * GIB, tflops=501.5, grad_norm=2.0)),
        (torchtitan, Figures(peak_memory_bytes=33.9 * GIB, tflops=81.2, mfu=41.2 / 100)),
        (torchtitan_2024, Figures(peak_memory_bytes=33.9 * GIB, mfu=41.2 / 100)),
        (mmseg, Figures(peak_memory_bytes=18878 * MIB)),
        (mmengine, Figures(peak_memory_bytes=17929 * MIB)),
        (mmcv_json, Figures(peak_memory_bytes=5123 * MIB)),
        (torchvision, Figures(peak_memory_bytes=7312 * MIB)),
        # It prints 0.0GB.
        (deepspeed, None),
    ],
)
def test_figures_of_the_measured_windows(
    tmp_path: Path, writer: Writer, figures: Figures | None
) -> None:
    result = read(tmp_path, [writer(i, 0.5) for i in range(150)])

    assert result.figures == figures


def test_the_warm_up_is_in_no_figure(tmp_path: Path) -> None:
    lines = [
        torchtitan(i, 0.5).replace("81.2", "9999.9" if i < 50 else "81.2") for i in range(150)
    ]
    lines[120] = lines[120].replace("33.90GiB", "48.00GiB")

    result = read(tmp_path, lines)

    assert result.figures == Figures(peak_memory_bytes=48 * GIB, tflops=81.2, mfu=41.2 / 100)
    assert json.loads(json.dumps(result.to_json()))["figures"]["peak_memory_bytes"] == 48 * GIB


def test_a_norm_that_is_not_a_number_is_no_figure(tmp_path: Path) -> None:
    lines = [
        torchtitan(i, 0.5).replace("memory", f"grad_norm: {'nan' if i == 77 else 2.5}  memory")
        for i in range(150)
    ]

    result = read(tmp_path, lines)

    assert result.figures is not None
    assert result.figures.grad_norm == 2.5


def test_windows_that_are_joined_keep_the_most_memory_and_the_mean_of_the_rest() -> None:
    windows = LogWindows()
    for i in range(MOST_WINDOWS + 2):
        is_odd = i % 2 == 1
        windows.append(
            LogWindow(
                first=i + 1,
                last=i + 1,
                rate=1.0,
                printed_rate=1.0,
                seconds_each=1.0,
                wait_each=None,
                label=i,
                label_start=None,
                memory_bytes=7.0 if is_odd else 5.0,
                tflops=30.0 if is_odd else 10.0,
                mfu=0.25 if is_odd else None,
                grad_norm=math.inf if is_odd else 1.0,
            )
        )
    columns = windows.columns()

    assert len(columns["last"]) < MOST_WINDOWS
    later = {name: set(columns[name][KEPT:].tolist()) for name in FIGURES}
    assert later == {
        "memory_bytes": {7.0},
        "tflops": {20.0},
        "mfu": {0.25},
        "grad_norm": {math.inf},
    }
    assert not np.isnan(columns["tflops"]).any()
