"""``dlperf audit``: where the numbers of a report come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.cli.source_reports.audit_rules import cells_of
from tests.helpers.paddle_lines import plsc

#: 16 samples of all devices in so many seconds.
SECONDS = {"1n1g": 0.5, "1n8g": 0.08}
TABLE = """
Some words | that are no table

| 卡数 | 吞吐(samples/sec) | speedup | note |
|:----:|:----:|:----:|----|
| 1卡 | {one} | 1 | -- |
| 8卡 | **{eight}** | 6.25 | - |
| 32卡 | 700 | -- | guessed |
"""


def logs(folder: Path) -> Path:
    for layout, seconds in SECONDS.items():
        for run in (1, 2, 3):
            path = folder / "logs" / layout / f"r50_b16_fp32_{run}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [plsc(i, seconds * (1 + run / 100)) for i in range(0, 200, 10)]
            path.write_text("\n".join(lines))
    return folder / "logs"


def audited(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str = TABLE, **cells: str
) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    table = folder / "README.md"
    table.write_text(text.format(**cells), encoding="utf-8")
    code = main(["audit", str(table), f"--log_dir={logs(folder)}", "--json"])
    values = json.loads(capsys.readouterr().out)
    assert values["format"] == 1
    return code, {(cell["row"], cell["column"]): cell for cell in values["cells"]}


def test_cells_are_found_by_rule_and_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    eight = 16 / (0.08 * 1.02)
    code, cells = audited(capsys, tmp_path, one="31.37", eight=f"{eight:.2f}")
    assert code == 1, "32 devices have no log"
    one, rate = cells["1卡", "吞吐(samples/sec)"], cells["8卡", "吞吐(samples/sec)"]
    assert one["reproduced"]
    assert rate["reproduced"]
    assert rate["devices"] == 8
    assert rate["found"] == pytest.approx(eight, rel=1e-3)
    assert "1n8g" in rate["logs"]
    assert cells["8卡", "speedup"]["reproduced"]
    missing = cells["32卡", "吞吐(samples/sec)"]
    assert not missing["reproduced"]
    assert missing["found"] is None


@pytest.mark.parametrize(
    ("nodes", "each"),
    [
        ("node_num", "gpu_num_per_node"),
        ("nodes", "gpus_per_node"),
        ("num_nodes", "num_gpus_per_node"),
        ("Nodes", "GPUs / node"),
        ("机器数", "单机卡数"),
        ("节点数", "每机卡数"),
    ],
)
def test_devices_are_nodes_times_those_of_a_node(nodes: str, each: str):
    text = f"| {nodes} | {each} | rate |\n|---|---|---|\n| 1 | 8 | 700 |\n| 4 | 8 | 2500 |\n"
    assert [cell.devices for cell in cells_of(text)] == [8, 32]


def test_nodes_alone_name_no_devices():
    text = "| node_num | rate |\n|---|---|\n| 4 | 2500 |\n"
    assert [cell.devices for cell in cells_of(text)] == [None]


def test_a_number_that_no_rule_gets_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, cells = audited(capsys, tmp_path, one="31.37", eight="250")
    assert code == 1
    cell = cells["8卡", "吞吐(samples/sec)"]
    assert not cell["reproduced"]
    assert cell["difference"] < -0.1
    main(["audit", str(tmp_path / "README.md"), f"--log_dir={tmp_path / 'logs'}"])
    out = capsys.readouterr().out
    assert "no rule gets these from the logs:" in out
    assert "8卡 / 吞吐(samples/sec) = 250: the column's rule is" in out
    assert "32卡 / 吞吐(samples/sec) = 700: no log of its devices" in out


@pytest.mark.parametrize("text", [None, "no table here\n", "| a | b |\n|---|---|\n| x | y |\n"])
def test_a_table_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
):
    table = tmp_path / "t.md"
    if text is not None:
        table.write_text(text)
    assert main(["audit", str(table), f"--log_dir={logs(tmp_path)}"]) == 2
    assert str(table) in capsys.readouterr().err


def test_a_column_has_one_rule_and_what_only_another_gets_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The first two are medians over runs, the last is the third run alone."""
    text = """
| layout | samples/s |
|---|---|
| 1n1g | {one} |
| 1n8g | {eight} |
| 2n8g | {sixteen} |
"""
    for run, seconds in ((1, 0.04), (2, 0.041), (3, 0.047)):
        path = tmp_path / "logs" / "2n8g" / f"r50_b16_fp32_{run}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(plsc(i, seconds) for i in range(0, 200, 10)))
    median_one, median_eight = 16 / (0.5 * 1.02), 16 / (0.08 * 1.02)
    code, cells = audited(
        capsys, tmp_path, text, one=f"{median_one:.2f}", eight=f"{median_eight:.2f}",
        sixteen=f"{16 / 0.047:.2f}",
    )  # fmt: skip
    assert code == 1
    found = {row: cell for (row, _), cell in cells.items()}
    rules = {cell["rule"] for cell in found.values()}
    assert len(rules) == 1
    assert next(iter(rules)).startswith("median over runs of")
    assert [found[row]["reproduced"] for row in ("1n1g", "1n8g", "2n8g")] == [True, True, False]
    assert found["2n8g"]["other"]["rule"].endswith("of run 3")
    main(["audit", str(tmp_path / "README.md"), f"--log_dir={tmp_path / 'logs'}"])
    assert "another rule than that of their column gets these" in capsys.readouterr().out


def test_a_loss_is_looked_for_in_a_column_of_losses_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "| gpus | samples/s | last loss |\n|---|---|---|\n| 8 | 38.2 | 38.2 |\n"
    code, cells = audited(capsys, tmp_path, text)
    assert code == 1
    assert not cells["8", "samples/s"]["reproduced"]
    assert cells["8", "samples/s"]["other"] is None
    assert cells["8", "last loss"]["reproduced"]


def test_columns_that_describe_a_row_are_no_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """They choose the logs: none has a batch of 32."""
    text = """
| model | GPUs | BS | samples/s |
|---|---|---|---|
| r50 | 8 | 16 | {eight} |
| r50 | 8 | 32 | {eight} |
"""
    _, cells = audited(capsys, tmp_path, text, eight=f"{16 / (0.08 * 1.02):.2f}")
    assert {column for _, column in cells} == {"samples/s"}
    (tmp_path / "README.md").write_text(text.format(eight="196.08"))
    main(["audit", str(tmp_path / "README.md"), f"--log_dir={tmp_path / 'logs'}", "--json"])
    values = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["reproduced"] for cell in values] == [True, False]
    assert values[1]["found"] is None


def test_precision_and_devices_of_a_header_choose_the_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "| model | FP32 8 GPUs | AMP 8 GPUs |\n|---|---|---|\n| r50 | 196.08 | 196.08 |\n"
    _, cells = audited(capsys, tmp_path, text)
    assert cells["r50", "FP32 8 GPUs"]["reproduced"]
    assert cells["r50", "AMP 8 GPUs"]["found"] is None
