"""``dlperf judge``: verdicts on logs, results and baselines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pytest_dlperf.cli import main
from tests.helpers.judged_logs import judged, write
from tests.helpers.paddle_lines import paddleclas, plsc

ROOT = Path(__file__).parents[3]
REAL = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "logs" / "paddle-perf"


@pytest.mark.parametrize(
    ("seconds", "verdict", "code"),
    [(0.5, "passed", 0), (0.8, "regressed", 1), (0.3, "improved", 0), (0.522, "inconclusive", 0)],
)
def test_one_log_a_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, verdict: str, code: int
):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", seconds)
    found, values = judged(capsys, base, current)
    assert (found, values["verdict"]) == (code, verdict)
    assert values["change"] == pytest.approx(0.5 / seconds - 1, abs=0.01)
    low, high = values["interval"]
    assert low < values["change"] < high
    assert values["provisional"] is True
    assert "throughput" not in values


def test_more_logs_see_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for side, seconds in (("base", 0.5), ("now", 0.5)):
        (tmp_path / side).mkdir()
        for run in range(5):
            write(tmp_path / side, f"run{run}{side}", seconds)
    one = [next((tmp_path / side).iterdir()) for side in ("base", "now")]
    _, single = judged(capsys, *one)
    _, folders = judged(capsys, tmp_path / "base", tmp_path / "now")
    _, globbed = judged(capsys, tmp_path / "base" / "*.log", tmp_path / "now" / "*.log")
    assert folders["sees"] < single["sees"]
    assert globbed == folders


def test_strict_fails_what_was_not_judged(tmp_path: Path):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", 0.522)
    assert main(["judge", str(base), str(current)]) == 0
    assert main(["judge", str(base), str(current), "--strict"]) == 1


def test_waiting_for_data_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base = write(tmp_path, "base", 0.5, wait=0.01)
    current = write(tmp_path, "now", 0.8, wait=0.3)
    _, values = judged(capsys, base, current)
    assert values["verdict"] == "regressed"
    assert "waiting for data explains 9" in values["reason"]


def test_one_long_stall_is_unsteady_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base = write(tmp_path, "base", 0.5)
    current = write(tmp_path, "now", 0.5, stall_s=20.0)
    code, values = judged(capsys, base, current)
    assert (code, values["verdict"]) == (0, "unsteady")
    assert values["interval"][0] < values["change"] < values["interval"][1]
    assert (
        "most by iterations 291 to 300" in values["reason"] or "iterations 2" in values["reason"]
    )


def stamped(
    path: Path,
    every_s: float,
    rate: float = 85.0,
    pause_s: Callable[[int], float] = lambda _: 0.0,
    words: str = "",
) -> Path:
    """Write a log of DeepSpeed's that prints so often, ten steps each, and always one rate.

    Before a print it may pause, with or without words of it.
    """
    start = datetime(2023, 4, 18, 8)
    pauses_s = [pause_s(i) for i in range(31)]
    times = [start + timedelta(seconds=every_s * i + sum(pauses_s[: i + 1])) for i in range(31)]
    path.write_text(
        "".join(
            (words if pauses_s[i] else "") + f"[{times[i]:%Y-%m-%d %H:%M:%S},000] [INFO] "
            f"[timer.py:199:stop] epoch=0/micro_step={10 * i}/global_step={10 * i}, "
            f"RunningAvgSamplesPerSec={rate}, CurrSamplesPerSec={rate}, MemAllocated=10.77GB\n"
            for i in range(1, 31)
        ),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("every_s", "rate", "verdict"),
    [(37, 85.0, "passed"), (74, 85.0, "unsteady"), (74, 42.5, "regressed")],
)
def test_a_change_that_the_clocks_of_the_logs_contradict_is_not_certified(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    every_s: float,
    rate: float,
    verdict: str,
):
    base = stamped(tmp_path / "base.log", 37)
    current = stamped(tmp_path / "now.log", every_s, rate)
    _, values = judged(capsys, base, current)
    assert values["verdict"] == verdict
    assert ("iterations by the clock -50.0 %" in values["reason"]) is (verdict == "unsteady")


@pytest.mark.parametrize(
    "pause_s",
    [lambda i: 300 * (i % 3 == 0), lambda i: 333 * (i > 18), lambda i: 4000.0 * (i == 20)],
    ids=["every third print", "the last third", "a long one"],
)
@pytest.mark.parametrize("sizes", [(), ("--world_size=8", "--batch_size_per_device=40")])
@pytest.mark.parametrize(
    ("words", "verdict"), [("", "unsteady"), ("Running validation...\n", "passed")]
)
def test_time_that_passed_between_prints_without_a_word_is_not_certified(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pause_s: Callable[[int], float],
    sizes: tuple[str, ...],
    words: str,
    verdict: str,
):
    base = stamped(tmp_path / "base.log", 37)
    current = stamped(tmp_path / "now.log", 37, pause_s=pause_s, words=words)
    _, values = judged(capsys, base, current, *sizes)
    assert values["verdict"] == verdict
    assert ("in all" in values["reason"]) is (verdict == "unsteady")


def test_a_mean_of_printed_rates_that_the_clock_contradicts_is_not_certified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    sides = [stamped(tmp_path / f"{name}.log", 37) for name in ("base", "now")]
    sizes = ("--world_size=8", "--batch_size_per_device=8")
    _, values = judged(capsys, *sides, "--rule=dlperf", "--until=1000", *sizes)
    assert values["verdict"] == "unsteady"
    assert "by the clock" in values["reason"]


def test_another_world_size_is_incomparable(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base = write(tmp_path, "base", 0.5)
    current = tmp_path / "now_gpu4_bs16_fp32.log"
    current.write_text(base.read_text())
    _, values = judged(capsys, base, current)
    assert values["verdict"] == "incomparable"
    assert "devices: 4, was 8" in values["reason"]


def test_folders_by_layout_are_judged_case_by_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for side, slow in (("base", 1.0), ("now", 1.5)):
        for layout, seconds in (("1n1g", 0.5), ("1n8g", 0.5 * slow)):
            folder = tmp_path / side / layout
            folder.mkdir(parents=True)
            for run in (1, 2, 3):
                text = "\n".join(plsc(i, seconds) for i in range(0, 200, 10))
                (folder / f"r50_b16_fp32_{run}.log").write_text(text)
    code, values = judged(capsys, tmp_path / "base", tmp_path / "now")
    verdicts = {one["training"]: one["verdict"] for one in values["trainings"]}
    assert verdicts == {"r50-fp32-bs16-1n1g": "passed", "r50-fp32-bs16-1n8g": "regressed"}
    assert code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("hello\n", "no line is a record"),
        ("{}", "neither a results file, nor a baseline"),
        ('{"outcomes": 3}', "not a results file"),
    ],
)
def test_what_cannot_be_read_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
):
    base = write(tmp_path, "base", 0.5)
    current = tmp_path / ("now.json" if text and text[0] == "{" else "now.log")
    if text is not None:
        current.write_text(text)
    assert main(["judge", str(base), str(current)]) == 2
    assert message in capsys.readouterr().err


def test_a_log_too_short_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base = write(tmp_path, "base", 0.5)
    current = tmp_path / "now_gpu8_bs16.log"
    current.write_text("\n".join(paddleclas(i, 0.5) for i in range(20)))
    assert main(["judge", str(base), str(current)]) == 2
    assert "a number needs 50 of warm-up" in capsys.readouterr().err


def test_a_loss_that_came_to_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", 0.5)
    current.write_text(re.sub(r"\bloss: [\d.]+", "loss: nan", current.read_text()))
    code, values = judged(capsys, base, current)
    assert (code, values["verdict"]) == (1, "error")
    assert "the last loss in the log is not a finite number" in values["reason"]


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real logs at {REAL}")
@pytest.mark.parametrize(
    ("path", "verdict", "low", "high"),
    [
        ("ResNet50V1.5/OtherReports/PyTorch/logs/V100-LOG/pytorch_gpu8_fp32_bs256.txt",
         "unsteady", None, None),
        ("HRNetW18/logs/paddle/PaddleSeg_fcn_hrnetw18_bs8_fp32_DP_N1C8_log",
         "improved", 0.18, 0.25),
        ("HRNetW18/OtherReports/PyTorch/logs/hrnet_torch_bs8_fp16_gpu8",
         "regressed", -0.45, -0.35),
        ("Transformer/OtherReports/PyTorch/logs/V100_LOG/transformer_pytorch_bs5120_fp32_gpu8",
         "passed", -0.01, 0.01),
    ],
)  # fmt: skip
def test_releases_of_a_published_report(
    capsys: pytest.CaptureFixture[str],
    path: str,
    verdict: str,
    low: float | None,
    high: float | None,
):
    _, values = judged(capsys, REAL / "v2.4" / path, REAL / "master" / path)
    assert values["verdict"] == verdict
    if low is None or high is None:
        assert values["interval"][0] < values["change"] < values["interval"][1]
    else:
        assert low < values["change"] < high
