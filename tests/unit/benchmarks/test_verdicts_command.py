"""``python benchmarks/verdicts.py``, with the peers that are installed here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import verdict_rules

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]

pytest.importorskip("matplotlib", reason="matplotlib is not installed here")


def verdicts(shared: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "benchmarks/verdicts.py", *arguments],
        check=False, cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=os.environ | {"DLPERF_SHARED": str(shared), "PYTHONPATH": paths},
    )  # fmt: skip


def test_equal_seeds_give_equal_tables_with_any_number_of_processes(tmp_path: Path) -> None:
    missing = verdict_rules.load()[1]
    texts = []
    for processes in ("1", "2"):
        done = verdicts(
            tmp_path / "none", "--only=quiet", "--suites=2", "--peer-suites=1",
            f"--processes={processes}", f"--output={tmp_path / processes}",
        )  # fmt: skip
        assert done.returncode == bool(missing), done.stderr
        texts.append((tmp_path / processes / "verdicts.md").read_text(encoding="utf-8"))
        assert (tmp_path / processes / "verdicts.png").stat().st_size > 10_000
    assert texts[0] == texts[1]
    assert f"{tmp_path / 'none' / 'noise'} is not there" in texts[0]


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    done = verdicts(tmp_path, "--only=loud")
    assert done.returncode == 2
    assert "no data set loud; here are quiet, typical, noisy" in done.stderr
