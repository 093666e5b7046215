"""``dlperf audit``: where the numbers of a report come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from log_lines import plsc

from pytest_dlperf.cli import main

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
    capsys: pytest.CaptureFixture[str], folder: Path, **cells: str
) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    table = folder / "README.md"
    table.write_text(TABLE.format(**cells), encoding="utf-8")
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


def test_a_number_that_no_rule_gets_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, cells = audited(capsys, tmp_path, one="31.37", eight="250")
    assert code == 1
    cell = cells["8卡", "吞吐(samples/sec)"]
    assert not cell["reproduced"]
    assert cell["difference"] < -0.1
    main(["audit", str(tmp_path / "README.md"), f"--log_dir={tmp_path / 'logs'}"])
    out = capsys.readouterr().out
    assert "no rule gets these from the logs:" in out
    assert "8卡 / 吞吐(samples/sec) = 250: closest is" in out
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
