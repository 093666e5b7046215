"""``--dlperf-list`` has a row for every throughput cell of the five source reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

BASELINES = Path(__file__).parents[2] / "baselines"
#: Cases of the reports' tables, whether or not the suites here declare them all.
CASES = """
import pytest
from pytest_dlperf import expand

KEYS = {"workload": "w:build"}
ONE_8_32 = ["1n1g", "1n8g", "4n8g"]
CASES = [
    *expand(suite="tsm", framework="paddle", precision="amp", batch_size_per_device=16,
            layout=ONE_8_32, **KEYS),
    *expand(suite="tsm", framework="torch", precision=["fp32", "amp"], batch_size_per_device=16,
            layout=ONE_8_32, **KEYS),
    *expand(suite="deeplabv3p", framework=["paddle", "torch"], precision="fp32",
            batch_size_per_device=2, layout=ONE_8_32, **KEYS),
    *expand(suite="deeplabv3p", framework=["paddle", "torch"], precision="amp",
            batch_size_per_device=4, layout=ONE_8_32, **KEYS),
    *expand(suite="arcface", framework="paddle", precision="fp32", batch_size_per_device=128,
            layout=["1n1g", "1n4g", "1n8g", "2n8g", "4n8g"], **KEYS),
    *expand(suite="resnet50", framework="tensorflow", precision=["fp32", "amp"], unit="images",
            batch_size_per_device=256, layout=ONE_8_32, **KEYS),
]

@pytest.mark.dlperf(cases=CASES)
def test_net(dlperf):
    dlperf.run()
"""
SMALL, LARGE = "8x-v100-sxm2-16gb", "8x-v100-sxm2-32gb"
#: The cells that the reports fill, as they print them.
FILLED = {
    "tsm-paddle-amp-bs16-1n1g": f"80.222 samples/s ({LARGE})",
    "tsm-paddle-amp-bs16-1n8g": f"549.176 samples/s ({LARGE})",
    "tsm-paddle-amp-bs16-4n8g": f"2042.24 samples/s ({LARGE})",
    "tsm-torch-amp-bs16-4n8g": f"1380.045 samples/s ({SMALL})",
    "arcface-paddle-fp32-bs128-1n1g": f"397.78 samples/s ({SMALL})",
    "arcface-paddle-fp32-bs128-1n4g": f"1539.66 samples/s ({SMALL})",
    "arcface-paddle-fp32-bs128-1n8g": f"2545.3 samples/s ({SMALL})",
    "arcface-paddle-fp32-bs128-2n8g": f"5953.84 samples/s ({SMALL})",
    "arcface-paddle-fp32-bs128-4n8g": f"11084.53 samples/s ({SMALL})",
    "resnet50-tensorflow-fp32-bs256-1n1g": f"414.73 images/s ({LARGE})",
    "resnet50-tensorflow-fp32-bs256-1n8g": f"3275.93 images/s ({LARGE})",
    "resnet50-tensorflow-fp32-bs256-4n8g": f"12671.9 images/s ({LARGE})",
    "resnet50-tensorflow-amp-bs256-1n1g": f"1173.38 images/s ({LARGE})",
    "resnet50-tensorflow-amp-bs256-1n8g": f"9310.31 images/s ({LARGE})",
    "resnet50-tensorflow-amp-bs256-4n8g": f"33317.67 images/s ({LARGE})",
}
#: Accuracy in percent and time to train in seconds, where a report has one of them.
TRAINED = {
    "tsm-paddle-amp-bs16-1n8g": (71.0, 22549.33),
    "tsm-paddle-amp-bs16-4n8g": (71.02, 5909.33),
    "tsm-torch-amp-bs16-4n8g": (71.199, None),
}


@pytest.fixture
def listed(suite: Suite) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    suite.write(CASES)
    result = suite.run(
        "--dlperf-list", "--dlperf-json=list.json", f"--dlperf-baselines={BASELINES}",
        "-k", "tsm or deeplabv3p or arcface or resnet50",
    )  # fmt: skip
    assert result.ret == 0
    rows = json.loads((suite.path / "list.json").read_text(encoding="utf-8"))["cases"]
    return result, {row["id"]: row for row in rows}


def test_every_throughput_cell_has_a_row_filled_or_empty(listed):
    _, rows = listed
    assert all(row["declared"] for row in rows.values())
    # 3 + 6 of the TSM reports, 12 of DeepLabV3+, 5 of ArcFace, 6 of ResNet-50
    assert len(rows) == 32
    assert {case_id: row["published"] for case_id, row in rows.items()} == {
        case_id: FILLED.get(case_id, "--") for case_id in rows
    }
    assert set(FILLED) <= set(rows)


@pytest.mark.slow
def test_accuracy_and_time_to_train_need_full_training(listed):
    result, rows = listed
    found = {
        case_id: (row["accuracy_percent"], row["time_to_train_s"]) for case_id, row in rows.items()
    }
    assert found == {case_id: TRAINED.get(case_id, (None, None)) for case_id in rows}
    result.stdout.fnmatch_lines(
        [
            "tsm-paddle-amp-bs16-1n8g *71.00 %, needs full training *22549.33 s, needs full *",
            "tsm-torch-amp-bs16-4n8g *71.199 %, needs full training  --*",
        ]
    )


@pytest.mark.slow
def test_a_published_number_without_a_case_has_a_row_too(suite: Suite):
    result = suite.run("--dlperf-list", f"--dlperf-baselines={BASELINES}")
    result.stdout.fnmatch_lines(
        [
            f"tsm-paddle-amp-bs16-4n8g *2042.24 samples/s ({LARGE})*71.02 %, needs full training"
            "*5909.33 s, needs full training*no case declares it"
        ]
    )


@pytest.mark.slow
def test_chosen_cases_are_listed_alone(suite: Suite):
    """Of a number whose case was not chosen nobody can say that it has none."""
    suite.write(CASES)
    result = suite.run("--dlperf-list", "-k", "resnet50", f"--dlperf-baselines={BASELINES}")
    result.stdout.no_fnmatch_line("*no case declares it*")
    result.stdout.fnmatch_lines("6 rows; nothing was run")
