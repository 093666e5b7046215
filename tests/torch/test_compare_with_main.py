"""The how-to that compares a branch with main, as its page prints it."""

from __future__ import annotations

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


def test_a_slower_branch_is_found_in_lock_step(printed: Folder):
    [command] = [
        block.text for block in blocks("docs/howto/compare-with-main.md")
        if block.language == "bash"
    ]  # fmt: skip
    words = command.split()
    assert words[0] == "pytest"
    _, [outcome] = printed.run(*words[1:], "--dlperf-explain=never", "--dlperf-max-runs=3")
    assert outcome["judgement"]["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"both"}
    assert all(run["turns"] for run in outcome["measurement"]["runs"])
