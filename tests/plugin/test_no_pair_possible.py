"""Where no pair with the code of the stored session is possible, the stored rule judges alone.

And the sentence says why; a failure of git is never taken for a commit that is not there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_repository import ONE, commit, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow

QUICK = ("-k", "1n1c", "--dlperf-runs=3")


def rewrite(suite: Suite, **fields: Any) -> None:
    """Change what the stored session says of its code."""
    (file,) = suite.path.glob("baselines/*/*/*.json")
    values = json.loads(file.read_text(encoding="utf-8"))
    values["sessions"][-1] |= fields
    file.write_text(json.dumps(values), encoding="utf-8")


def collect_garbage(suite: Suite) -> None:
    git(suite, "reflog", "expire", "--expire=now", "--all")
    git(suite, "gc", "-q", "--prune=now")


def make_shallow(suite: Suite) -> None:
    """Leave what ``git clone --depth=1`` brings."""
    upstream = suite.path / ".git/upstream"
    subprocess.run(["git", "clone", "-q", "--bare", suite.path, upstream], check=True)
    git(suite, "fetch", "-q", "--depth=1", upstream.as_uri(), "main")
    collect_garbage(suite)


def amend(suite: Suite) -> None:
    """Put another root commit in the place of both, and collect them."""
    git(suite, "reset", "-q", "--soft", git(suite, "rev-list", "--max-parents=0", "HEAD"))
    git(suite, "commit", "-q", "--amend", "-m", "other words")
    collect_garbage(suite)


def damage(suite: Suite) -> None:
    """Empty the object of the stored session's commit, as a full disk leaves it."""
    before = git(suite, "rev-parse", "HEAD~1")
    file = suite.path / ".git/objects" / before[:2] / before[2:]
    file.chmod(0o600)
    file.write_bytes(b"")


def remove_git(suite: Suite) -> None:
    shutil.rmtree(suite.path / ".git")


def of_modified_files(suite: Suite) -> None:
    rewrite(suite, dirty=True)


def of_no_repository(suite: Suite) -> None:
    rewrite(suite, commit="")


@pytest.fixture
def slower(repository: Suite) -> Suite:
    """One session is stored, and the commit after it is slower."""
    assert repository.run(*QUICK, "--update-baselines").ret == 0
    commit(repository, 0.02)
    return repository


#: What happens to the repository or the stored session -> the words that say it.
HAPPENS: list[tuple[Callable[[Suite], None], str]] = [
    (make_shallow, "this clone is shallow and has no commit"),
    (amend, "it was amended, or its branch is not fetched"),
    (damage, "git failed in"),
    (remove_git, "git has no repository for"),
    (of_modified_files, "the stored session is of modified files"),
    (of_no_repository, "the stored session has no git commit"),
]


@pytest.mark.nightly  # the gate has its main way
def test_why_no_pair_is_possible(slower: Suite, tmp_path_factory: pytest.TempPathFactory):
    kept = tmp_path_factory.mktemp("kept")
    for name in (".git", "baselines"):
        shutil.copytree(slower.path / name, kept / name, symlinks=True)
    log = slower.path / "launches"
    slower.env(FAKE_LOG=log)
    for happens, words in HAPPENS:
        happens(slower)
        result, outcomes = slower.outcomes(*QUICK)
        outcome = outcomes[ONE]
        assert outcome["judgement"]["verdict"] == "regressed", words
        assert result.ret == 1, words
        confirmation = outcome["confirmation"]
        assert words in confirmation["impossible"]
        assert f"no pairs: {confirmation['impossible']}" in outcome["judgement"]["reason"]
        assert confirmation["pairs"] is None
        assert confirmation["same_code"] is False
        assert len(log.read_text().splitlines()) == 3, "nothing else was launched"
        log.unlink()
        for name in (".git", "baselines"):
            shutil.rmtree(slower.path / name, ignore_errors=True)
            shutil.copytree(kept / name, slower.path / name, symlinks=True)
    assert not list(Path(slower.path).glob(".dlperf/arms/*.done"))
