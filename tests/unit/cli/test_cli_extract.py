from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli import main
from tests.helpers.log_writer import log
from tests.helpers.paddle_lines import plsc

#: Printed by seed 003, by layout and run.
SEED = {
    "1n1g": (397.44, 398.05, 398.98, 397.64, 397.78),
    "1n4g": (1555.18, 1534.62, 1540.66, 1539.66, 1535.04),
    "1n8g": (2536.04, 2545.3, 2563.28, 2554.13, 2542.14),
    "2n8g": (5950.34, 5953.84, 5982.75, 5961.68, 5934.43),
    "4n8g": (11165.17, 11109.91, 11084.53, 11077.58, 10997.67),
}
TF2 = Path(os.environ.get("DLPERF_SHARED", Path(__file__).parents[3].parent / "shared")) / (
    "logs/dlperf-tf2"
)


@pytest.fixture
def seed_logs(tmp_path: Path) -> Path:
    for layout, speeds in SEED.items():
        (tmp_path / layout).mkdir()
        for run, speed in enumerate(speeds, 1):
            lines = [
                plsc(batch, 16 / (1.0 if batch < 50 else speed)) for batch in range(0, 151, 10)
            ]
            (tmp_path / layout / f"r50_b128_fp32_{run}.log").write_text("\n".join(lines))
    return tmp_path


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    code = main(["extract", "--json", *argv])
    return code, json.loads(capsys.readouterr().out)


def test_the_seeds_summary_comes_out_of_logs_made_to_hold_it(
    seed_logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run_json(
        capsys, f"--log_dir={seed_logs}", "--batch_size_per_device=128", "--rule=dlperf"
    )

    assert code == 0
    by_path = {Path(entry["path"]): entry["throughput"] for entry in found["logs"]}
    assert by_path[seed_logs / "4n8g/r50_b128_fp32_1.log"] == pytest.approx(11165.17)
    layouts = found["summary"]["r50"]
    assert layouts["2n8g"] == {
        "average_speed": pytest.approx(5956.61),
        "batch_size_per_device": 128,
        "median_speed": 5953.84,
        "speedup": 14.97,
    }
    assert [layouts[name]["speedup"] for name in SEED] == [1.0, 3.87, 6.4, 14.97, 27.87]


def test_the_seeds_step_from_8_to_16_devices_is_flagged(
    seed_logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = run_json(capsys, f"--log_dir={seed_logs}", "--rule=dlperf")

    flagged = [p["message"] for p in found["problems"] if p["code"] == "implausible-speedup"]
    assert any("2n8g" in message and "1n8g" in message for message in flagged)
    assert not any("1n1g" in message for message in flagged)


@pytest.mark.skipif(not TF2.is_dir(), reason=f"no real logs at {TF2}")
def test_published_speedups_come_out_of_the_published_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, found = run_json(capsys, "--rule=dlperf", "--until=600", f"--log_dir={TF2}")

    layouts = found["summary"]["rn50"]
    speedups = [layouts[name]["speedup"] for name in ("1n2g", "1n4g", "1n8g", "2n8g", "4n8g")]
    assert code == 0
    assert speedups == pytest.approx([1.79, 3.55, 7.64, 15.07, 29.27], abs=0.01)


def test_rates_from_time_stamps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"INFO 2021-03-12 00:{batch // 60:02}:{batch % 60:02},000 entry.py:980] "
        f"Pass:0 batch:{batch} lr:0.1 loss:38.2 qps:1.0"
        for batch in range(0, 151, 10)
    ]
    path = tmp_path / "r50_b128_gpu1.log"
    path.write_text("\n".join(lines))

    code, found = run_json(capsys, str(path), "--rule=dlperf-time")

    assert code == 0
    assert found["logs"][0]["throughput"] == pytest.approx(128)


def test_a_log_without_a_number_exits_1_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.log"
    path.write_text(log(plsc, iterations=20))

    code = main(["extract", str(path)])

    assert code == 1
    assert "insufficient-data" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["/nonesuch/x.log"],
        ["--log_dir=/nonesuch"],
        ["x.log", "--rule=nonesuch"],
        ["x.log", "--format=nonesuch"],
        ["x.log", "--pattern=("],
        ["x.log", "--scope=global"],
        ["x.log", "--format=plsc", "--pattern=x"],
        [str(Path(__file__)), "--save=/nonesuch/out.json"],
    ],
)
def test_wrong_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", *argv]) == 2
    assert capsys.readouterr().err.startswith("dlperf: ")


def test_save_writes_the_same_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, saved = tmp_path / "a.log", tmp_path / "result/out.json"
    saved.parent.mkdir()
    path.write_text(log(plsc))

    _, found = run_json(capsys, str(path), f"--save={saved}")

    assert json.loads(saved.read_text()) == found
    assert [file.name for file in saved.parent.iterdir()] == ["out.json"]


def test_save_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, saved = tmp_path / "a.log", tmp_path / "nonesuch/out.json"
    path.write_text(log(plsc))

    assert main(["extract", str(path), f"--save={saved}"]) == 2
    assert str(saved) in capsys.readouterr().err
    assert not saved.parent.exists()


def test_what_a_log_says_is_compared_with_the_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "train.log"
    head = "PADDLE_TRAINERS_NUM   32\nTrain.sampler.batch_size=64\n"
    path.write_text(head + log(plsc))
    _, values = run_json(capsys, str(path), "--world_size=8", "--batch_size_per_device=128")
    problems = {p["code"]: p["message"] for p in values["logs"][0]["problems"]}
    assert problems["world-size-mismatch"].startswith("the log says 32 devices, 8 were declared")
    assert problems["batch-size-mismatch"].startswith("the log says a batch of 64 a device, 128")
    _, values = run_json(capsys, str(path), "--world_size=32", "--batch_size_per_device=64")
    assert not any("mismatch" in p["code"] for p in values["logs"][0]["problems"])
