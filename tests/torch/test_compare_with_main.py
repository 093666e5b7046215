"""The how-to that compares a branch with main, as its page prints it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.documents import blocks
from tests.helpers.fake_repository import git
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch

NET = """
import torch


def net():
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range({layers})])
"""


@pytest.fixture
def printed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A repository with the files of the page, whose branch has three times the layers of main."""
    # Threads of one step that wait for each other are slower by the neighbours of either core
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for block in blocks("docs/howto/compare-with-main.md"):
        if block.language == "python":
            name = block.text.partition("# ")[2].split()[0].rstrip(":")
            (folder.path / name).write_text(block.text)
    (folder.path / "net.py").write_text(NET.format(layers=4))
    (folder.path / ".gitignore").write_text(".dlperf\n__pycache__\n*.json\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "main")
    (folder.path / "net.py").write_text(NET.format(layers=12))
    return folder


def compared(printed: Folder, *options: str) -> dict[str, Any]:
    """Return the outcome of the page's command, whose arms took turns."""
    [command] = [
        block.text
        for block in blocks("docs/howto/compare-with-main.md")
        if block.language == "bash"
    ]
    words = command.split()
    assert words[0] == "pytest"
    _, [outcome] = printed.run(*words[1:], "--dlperf-explain=never", *options)
    assert set(outcome["against"]["order"]) == {"both"}
    assert all(run["turns"] for run in outcome["measurement"]["runs"])
    return outcome


def test_the_command_trains_both_branches_in_lock_step(printed: Folder):
    short = ("--dlperf-runs=1", "--dlperf-iterations=40", "--dlperf-warmup=10")
    outcome = compared(printed, *short)
    assert outcome["against"]["name"] == "main"


@pytest.mark.nightly  # as many pairs as it takes, some minutes beside others
def test_a_slower_branch_is_found(printed: Folder):
    assert compared(printed, "--dlperf-max-runs=3")["judgement"]["verdict"] == "regressed"
