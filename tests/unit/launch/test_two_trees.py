"""What the arms of two trees imported: the reports of ranks, and trees that git made."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.arm import HereArm, parse_arm
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.wire_records import ImportsRecord, RunFacts
from pytest_dlperf.flow.ab_imports import TwoTrees
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.process.execute import execute
from tests.helpers.repository import Repository

[CASE] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")
PACKAGE = {"python/net/__init__.py": "", "python/net/layers.py": "", "train.py": ""}


class Pair:
    """The working tree of a repository against its first commit."""

    def __init__(self, path: Path, before: dict[str, str], after: dict[str, str | None]) -> None:
        self.repository = Repository(path)
        self.path = path
        self.write(before)
        self.commit("before")
        self.write(after)
        self.commit("after")
        self.ref = "HEAD~1"

    def write(self, files: dict[str, str] | dict[str, str | None]) -> None:
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def commit(self, words: str) -> None:
        self.repository.git("add", "-A", ".")
        self.repository.git("commit", "-q", "--allow-empty", "-m", words)

    def trees(self) -> TwoTrees:
        arms = Arms(
            folder=self.path / ".dlperf/arms",
            rootdir=self.path,
            python=sys.executable,
            preparation=Preparation(),
            execute=execute,
        )
        (self.path / ".dlperf").mkdir(exist_ok=True)
        (self.path / ".dlperf/.gitignore").write_text("*")
        now, before = arms.ready(HereArm()), arms.ready(parse_arm(self.ref, what="x"))
        assert before.tree is not None
        self.other = Path(before.tree.arm)
        return TwoTrees(now=now, before=before, rootdir=self.path, workdir=self.path / ".dlperf")

    def facts(self, tree: Path, *names: str, read: Sequence[str] = (), **copies: Any) -> RunFacts:
        files = {
            str(tree / name): hashlib.sha256((tree / name).read_bytes()).hexdigest()
            for name in names
        }
        return RunFacts(
            imports=ImportsRecord(
                files=files,
                copies=copies,
                outside=[],
                read=[str(tree / name) for name in read],
                started_processes=False,
            )
        )

    def unaffected(self, *names: str, **copies: Any) -> str:
        """What is said of arms that import these files, each from its own tree."""
        trees = self.trees()
        now, before = (self.facts(tree, *names, **copies) for tree in (self.path, self.other))
        trees.check(CASE, now, before)
        return trees.unaffected(CASE, now, before)


def copy(**roots: int) -> dict[str, Any]:
    """An installed package of two files."""
    return {"files": 2, "compiled": False, "roots": roots}


def test_what_ranks_report_has_the_modules_of_both_trees(tmp_path: Path):
    pair = Pair(tmp_path / "r", {"python/net/old.py": ""}, {"python/net/old.py": None})
    pair.write({"new/x.py": "", "notes.txt": ""})
    reported = pair.trees().reported(tmp_path / "session")
    assert reported.trees == tuple(sorted([str(pair.path), str(pair.other)]))
    text = Path(reported.modules_file).read_text()
    assert text.split("\n") == ["net.py", "new/x.py", "python/net/old.py"]
    assert pair.trees().reported(tmp_path / "session") == reported


@pytest.mark.parametrize(
    "after", [{"python/net/unused.py": "x"}, {"README": "x"}, {"train.sh": "x"}]
)
def test_what_neither_arm_imports_is_not_compared(tmp_path: Path, after: dict[str, str | None]):
    words = Pair(tmp_path / "r", PACKAGE, after).unaffected(*PACKAGE)
    assert words.startswith("nothing to compare: the working tree and HEAD~1 (commit ")
    assert "differ in 1 file, none of which this case imports (3 files" in words


def test_what_either_arm_reads_is_compared(tmp_path: Path):
    pair = Pair(tmp_path / "r", PACKAGE, {"cfg.py": "x", "notes.md": "x"})
    assert pair.unaffected(*PACKAGE, read=["notes.txt"]).startswith("nothing to compare")
    assert pair.unaffected(*PACKAGE, read=["cfg.py"]) == ""


def test_what_processes_of_a_rank_may_have_imported_is_compared(tmp_path: Path):
    """Loaders of data import in workers of their own, which nobody asks."""
    pair = Pair(tmp_path / "r", PACKAGE, {"transforms.py": "x"})
    trees = pair.trees()
    now, before = (pair.facts(tree, *PACKAGE) for tree in (pair.path, pair.other))
    assert trees.unaffected(CASE, now, before).startswith("nothing to compare")
    before["imports"]["started_processes"] = True
    assert trees.unaffected(CASE, now, before) == ""


@pytest.mark.parametrize("after", [{"python/net/layers.py": "x"}, {"python/net/unused.py": "x"}])
def test_a_package_that_is_installed_from_any_folder_is_a_copy(
    tmp_path: Path, after: dict[str, str | None]
):
    pair = Pair(tmp_path / "r", PACKAGE, after)
    with pytest.raises(CaseError) as raised:
        pair.unaffected("train.py", **{"/site/net": copy(**{"python/net": 2})})
    [name] = after
    assert f"secretly an A/A: {name} differs between the arms" in str(raised.value)
    assert "an installed copy of python/net, /site/net" in str(raised.value)


def test_of_two_packages_that_a_copy_may_be_of_either_counts(tmp_path: Path):
    pair = Pair(tmp_path / "r", PACKAGE, {"old/net/layers.py": "x"})
    with pytest.raises(CaseError, match="installed copy of old/net or python/net, /site/net"):
        pair.unaffected("train.py", **{"/site/net": copy(**{"python/net": 2, "old/net": 1})})


def test_a_copy_of_what_does_not_differ_is_no_error(tmp_path: Path):
    pair = Pair(tmp_path / "r", PACKAGE, {"docs/conf.py": "x"})
    copies = {"/site/net": copy(**{"python/net": 2})}
    assert pair.unaffected("train.py", **copies).startswith("nothing to compare")


def test_a_package_of_the_same_name_alone_is_compared_and_not_skipped(tmp_path: Path):
    """As ``tests/torch`` in a repository whose training imports torch."""
    pair = Pair(tmp_path / "r", PACKAGE, {"tests/torch/test_x.py": "x"})
    torch = {"files": 900, "compiled": True, "roots": {"tests/torch": 1}}
    assert pair.unaffected("train.py", **{"/site/torch": torch}) == ""


def test_an_installed_copy_that_was_compiled_counts_with_its_sources(tmp_path: Path):
    pair = Pair(tmp_path / "r", PACKAGE, {"csrc/kernel.cu": "x"})
    compiled = {"files": 2, "compiled": True, "roots": {"python/net": 2}}
    with pytest.raises(CaseError, match=r"csrc/kernel\.cu differs between the arms"):
        pair.unaffected("train.py", **{"/site/net": compiled})


def test_one_compiled_module_in_both_arms_is_an_error_where_its_source_differs(tmp_path: Path):
    pair = Pair(tmp_path / "r", {**PACKAGE, ".gitignore": "*.so\n"}, {"csrc/kernel.cu": "x"})
    pair.write({"python/net/k.so": "built"})
    trees = pair.trees()
    shutil.copy(pair.path / "python/net/k.so", pair.other / "python/net")
    now = pair.facts(pair.path, *PACKAGE, "python/net/k.so")
    own = pair.facts(pair.other, *PACKAGE, "python/net/k.so")
    assert "nothing to compare" in trees.unaffected(CASE, now, own)
    linked = pair.facts(pair.other, *PACKAGE)
    linked["imports"]["files"] |= pair.facts(pair.path, "python/net/k.so")["imports"]["files"]
    with pytest.raises(CaseError, match=f"same compiled one, {pair.path}/python/net/k.so"):
        trees.unaffected(CASE, now, linked)


def test_a_submodule_that_differs_is_compared(tmp_path: Path):
    other = Repository(tmp_path / "other")
    pair = Pair(tmp_path / "r", PACKAGE, {})
    for commit in (other.first, other.commit("speed = 2\n")):
        cache = f"160000,{commit},third_party/other"
        pair.repository.git("update-index", "--add", "--cacheinfo", cache)
        pair.repository.git("commit", "-qm", commit)
    assert pair.unaffected(*PACKAGE) == ""


def test_arms_that_report_nothing_of_what_they_imported(tmp_path: Path):
    pair = Pair(tmp_path / "r", PACKAGE, {"README": "x"})
    trees = pair.trees()
    told = pair.facts(pair.path, *PACKAGE)
    assert trees.unaffected(CASE, told, {}) == ""
    assert trees.is_unknown(told, {})
    assert not trees.is_unknown(told, told)
    pair.ref = "HEAD"
    assert "this was a null" in pair.trees().null({}, {})
    assert not pair.trees().is_unknown({}, {})
    pair.write({"made.py": "x"})
    assert pair.trees().null({}, {}) == ""
    assert pair.trees().is_unknown({}, {})


def test_what_git_ignores_is_no_null_either(tmp_path: Path):
    pair = Pair(tmp_path / "r", {**PACKAGE, ".gitignore": "made.py\n"}, {})
    pair.ref = "HEAD"
    pair.write({"made.py": "x"})
    trees = pair.trees()
    now, before = pair.facts(pair.path, *PACKAGE, "made.py"), pair.facts(pair.other, *PACKAGE)
    assert trees.null(now, before).startswith("not a null: made.py, which git does not track")
    assert trees.unaffected(CASE, now, before) == ""
