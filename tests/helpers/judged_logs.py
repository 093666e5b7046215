"""Logs that are judged, and what dlperf judge says of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli import main
from tests.helpers.paddle_lines import paddleseg


def write(
    folder: Path, name: str, seconds: float, *, wait: float | None = None, stall_s: float = 0.0
) -> Path:
    """Write a PaddleSeg log of 300 iterations, each about so long."""
    generator = random.Random(name)
    lines = []
    for i in range(0, 300, 10):
        each = seconds * generator.uniform(0.99, 1.01)
        if stall_s and i == 290:
            each = stall_s
        line = paddleseg(i, each)
        if wait is not None:
            line = line.replace(line.partition("reader_cost: ")[2][:6], f"{wait:.4f}")
        lines.append(line)
    path = folder / f"{name}_gpu8_bs16_fp32.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def judged(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main(["judge", *map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    values = json.loads(captured.out)
    assert values["format"] == 1
    return code, values
