"""From the command to the end of the first iteration: under pytest, and under bare torchrun.

One rank under torchrun, so that no one-device parent runs first; the bare command is the very
one that pytest starts (``--dlperf-dry-run``), without pytest and without the supervisor.
Then what a run takes beside its iterations: ``run_time.py``.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run_time

_ROUNDS = 9
_ROOT = Path(__file__).resolve().parents[1]
_TEST = """
import pytest
@pytest.mark.dlperf("perf_tests.tsm.torch_train:build", launcher="torchrun", layout="1n1c",
                    size="tiny", batch_size_per_device=2, iterations=6, warmup=3, loss="finite")
def test_first(dlperf):
    dlperf.run()
"""


def first_step_s(folder: Path, begin_s: float) -> float:
    """Return seconds from ``begin_s`` to the first iteration of the run below ``folder``."""
    (path,) = folder.rglob("rank00000.jsonl")
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["record"] == "first_step":
            return float(record["time"]) - begin_s
    raise RuntimeError(f"{path} has no first step")


def run(command: list[str], folder: Path, records: Path) -> float:
    """Run ``command`` in ``folder``; return seconds to the first iteration in ``records``."""
    begin_s = time.time()
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    try:
        return first_step_s(records, begin_s)
    except ValueError as error:
        raise RuntimeError(done.stdout + done.stderr) from error


def main() -> None:
    """Print the ratio of paired starts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_first.py").write_text(_TEST, encoding="utf-8")
        (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {_ROOT}\n", encoding="utf-8")
        pytest_command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cpus=1",
            "--dlperf-size=tiny", "--dlperf-runs=1",
        ]  # fmt: skip
        printed = subprocess.run(
            [*pytest_command, "--dlperf-dry-run"],
            cwd=folder, check=True, capture_output=True, text=True,
            env={**_environment(), "PYTHONPATH": str(_ROOT)},
        ).stdout  # fmt: skip
        lines = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
        words = shlex.split(" ".join(line.removesuffix("\\") for line in lines))
        pairs = []
        for number in range(_ROUNDS):
            work, bare = folder / f"work{number}", folder / f"bare{number}"
            under_pytest_s = run(
                ["env", f"PYTHONPATH={_ROOT}", *pytest_command, f"--dlperf-workdir={work}"],
                folder, work,
            )  # fmt: skip
            records = next(w for w in words if w.startswith("--records=")).partition("=")[2]
            bare_s = run(["env", *(w.replace(records, str(bare)) for w in words)], folder, bare)
            pairs.append((under_pytest_s, bare_s))
    ratios = [a / b for a, b in pairs]
    print(
        "first iteration under pytest / under bare torchrun: median "
        f"{statistics.median(ratios):.3f} (min {min(ratios):.3f}, max {max(ratios):.3f}); bare "
        f"{statistics.median(b for _, b in pairs):.2f} s; {_ROUNDS} pairs (goal: under 1.15)"
    )


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


if __name__ == "__main__":
    main()
    run_time.main()
