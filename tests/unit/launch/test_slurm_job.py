"""What sbatch is asked, and the script it is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_dlperf.core.layout import Layout
from pytest_dlperf.launch.remote.sent_to_hosts import exported_names
from pytest_dlperf.launch.schedulers.slurm_job import (
    MISPLACED,
    JobRequest,
    sbatch_command,
    script_text,
)


def request(folder: Path, layout: str | None = "2n8g", **fields: object) -> JobRequest:
    values: dict[str, object] = {
        "name": "tsm-torch-amp-bs16-2n8g", "layout": layout and Layout.parse(layout),
        "command": ("/bin/echo", "a b", "$(touch pwned)"), "folder": folder, "cwd": folder,
        "needs": (folder,), "heartbeat": folder / "beat", "time_s": 3601.0, "exclusive": True,
        "exported": ("NCCL_DEBUG", "PATH"), "sbatch_options": ("--partition=gpu", "--account=a b"),
        **fields,
    }  # fmt: skip
    return JobRequest(**values)  # type: ignore[arg-type]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", script]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_a_case_asks_for_whole_nodes_and_the_users_words_come_last(tmp_path: Path):
    words = sbatch_command(request(tmp_path))
    assert words[:2] == ("sbatch", "--parsable")
    for word in (
        "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--exclusive", "--mem=0",
        "--time=61", "--no-requeue", "--export=NCCL_DEBUG,PATH",
    ):  # fmt: skip
        assert word in words
    # Of an option that is given twice the last one counts
    assert words[-3:] == ("--partition=gpu", "--account=a b", str(tmp_path / "job.sh"))


def test_cpu_layouts_ask_for_cpus_and_shared_hosts_for_no_more(tmp_path: Path):
    words = sbatch_command(request(tmp_path, "1n4c", exclusive=False))
    assert "--cpus-per-task=4" in words
    assert not {"--exclusive", "--mem=0"} & set(words)
    assert not any("gpus" in word for word in words)


def test_the_probe_asks_for_a_node_whatever_it_has(tmp_path: Path):
    words = sbatch_command(request(tmp_path, None))
    assert {"--nodes=1", "--exclusive"} <= set(words)
    assert not any("gpus" in word or "cpus" in word for word in words)


def test_a_percent_sign_in_a_folder_is_no_pattern_of_sbatch(tmp_path: Path):
    words = sbatch_command(request(tmp_path / "50%j"))
    assert f"--output={tmp_path}/50%%j/job.log" in words


def test_without_variables_none_travel(tmp_path: Path):
    assert "--export=NONE" in sbatch_command(request(tmp_path, exported=()))


def test_words_from_outside_stay_words_in_the_script(tmp_path: Path):
    folder = tmp_path / "it's; touch pwned"
    folder.mkdir()
    asked = request(folder, name="x\ntouch pwned")
    # The real guard waits for a session; here it hands on what it is given.
    asked.guard.write_text("import sys; print(sys.argv[1:])")
    script = script_text(asked).replace("exec /bin/echo", "exec python3")
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'/bin/echo', 'a b', '$(touch pwned)'" in done.stdout
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("what", ["folder", "python"])
def test_a_node_that_lacks_something_says_what(tmp_path: Path, what: str):
    away = tmp_path / "away"
    asked = (
        request(tmp_path, needs=(away,))
        if what == "folder"
        else request(tmp_path, command=(str(away), "x"))
    )
    done = run(script_text(asked), tmp_path)
    assert done.returncode == MISPLACED
    assert str(away) in done.stderr
    assert ("shared file system" if what == "folder" else "--dlperf-python") in done.stderr


def test_only_named_variables_travel():
    found = exported_names(["PATH", "NCCL_DEBUG", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "OMP_X"])
    assert found == ("NCCL_DEBUG", "OMP_X", "PATH")
