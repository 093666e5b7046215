"""``python benchmarks/first_gpu.py``: what can be known of it without a GPU."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import first_gpu
from gpu_paths import test_gpu_paths as cases
from pytest_dlperf.cases.marker import expand
from pytest_dlperf.session.options import OPTIONS

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]


def commands(tmp_path: Path) -> list[first_gpu.Command]:
    return [one for step in first_gpu.steps(first_gpu.GPU, tmp_path).values() for one in step]


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_option_and_file_of_a_command_is_there(tmp_path: Path) -> None:
    known = {f"--dlperf-{one.name}" for one in OPTIONS} | {"--update-baselines", "--gpus"}
    names = [one.name for one in commands(tmp_path)]
    assert len(names) == len(set(names))
    for one in commands(tmp_path):
        words = [word.partition("=")[0] for word in (*one.argv, *one.beside)]
        if one.is_session:
            asked = {w for w in words if w.startswith("--")}
            assert "--gpus" in asked
            assert asked <= known, one.name
        if "-k" in one.argv:
            # Else it selects every case of the file
            which = one.argv[one.argv.index("-k") + 1]
            assert which not in "benchmarks/gpu_paths/test_gpu_paths.py"
            assert any(which in name for name in vars(cases))
        files = [word for word in words if word.startswith(("benchmarks/", "perf_tests"))]
        assert all((ROOT / file).exists() for file in files)
        assert files or one.name in {"nvidia-smi", "topology", "packages", "doctor"}


def test_each_path_has_a_workload() -> None:
    assert {*cases.PATHS, *cases.FAULTS} <= functions("benchmarks/gpu_paths/workloads.py")
    made = {name for name in vars(cases) if name.startswith("test_")}
    assert len(made) == sum(map(len, cases.PATHS.values())) + len(cases.FAULTS) + 3
    for name in made:
        [mark] = vars(cases)[name].pytestmark
        keys = dict(zip(("workload",), mark.args, strict=False)) | mark.kwargs
        assert expand(**keys), "the marker has keys that there are"


def test_the_steps_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert first_gpu.main([f"--out={tmp_path / 'gpu'}", "--list", "--only=paths,knobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["paths", "knobs"]
    assert not (tmp_path / "gpu").exists()


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert first_gpu.main(["--only=path"]) == 2
    assert "unknown step path; known: facts, paths, faults" in capsys.readouterr().err


def outcome(verdict: str, throughput: float | None) -> dict[str, Any]:
    measurement = None if throughput is None else {"throughput": throughput}
    return {
        "case": {"id": "c-1n1g"},
        "judgement": {"verdict": verdict, "reason": "why"},
        "measurement": measurement,
    }


def test_a_session_that_fails_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One writes results, one sleeps too long, one is not there; then no time is left."""
    results = {"outcomes": [outcome("error", None), outcome("no-baseline", 12.5)]}
    write = (
        "import pathlib, sys\n"
        "[path] = [a.partition('=')[2] for a in sys.argv if a.startswith('--dlperf-json=')]\n"
        f"pathlib.Path(path).write_text({json.dumps(results)!r})\n"
        "sys.exit(3)"
    )
    sleep = "import time; print('up', flush=True); time.sleep(600)"
    made = {
        "a": [first_gpu.Command("writes", (sys.executable, "-c", write), 60, is_session=True)],
        "b": [first_gpu.Command("sleeps", (sys.executable, "-c", sleep), 2)],
        "c": [first_gpu.Command("absent", (str(tmp_path / "none"),), 60)],
    }
    monkeypatch.setattr(first_gpu, "steps", lambda device, out: made)
    assert first_gpu.main([f"--out={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert "writes: exit code 3 after" in text
    assert "  c-1n1g: no measurement, error: why" in text
    assert "  c-1n1g: 12.5/s, no-baseline: why" in text
    assert "sleeps: ended by SIGTERM, exit code -15" in text
    assert "absent: not started (No such file or directory)" in text
    assert first_gpu.main([f"--out={tmp_path}", "--limit=5", "--only=a"]) == 0
    assert "writes: left out, 5 s are left" in capsys.readouterr().out
