"""``dlperf bisect-environment`` among five packages of a temporary folder, one of which is slow.

The program prints the seconds of its steps, which its packages decide: nothing is timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.launch.arms.environment import make_environment, side_of
from pytest_dlperf.launch.arms.package_search import changed
from tests.helpers.perf_project import PerfProject
from tests.helpers.repository import wheel

pytestmark = pytest.mark.slow  # several sessions of pytest, and environments made by pip

NAMES = ("pk-a", "pk-b", "pk-c", "pk-d", "pk-e")
PROGRAM = """
import random

import pk_a, pk_b, pk_c, pk_d, pk_e

# Two of them are what a version that sleeps in the step says
slow = [m for m in (pk_a, pk_b, pk_c, pk_d, pk_e) if m.version.endswith(".1")]
for step in range(30):
    seconds = 0.01 + {cost} + random.gauss(0, 1e-5)
    print(f"step {{step}} takes {{seconds:.6f}} s")
"""
TEST = """
import pytest
from pytest_dlperf import pattern

LOG = pattern(r"step (?P<step>\\d+) takes (?P<seconds>\\S+) s")

@pytest.mark.dlperf(command=["python", "program.py"], log_format=LOG, framework=None, runs=3,
                    layout="1n1c", batch_size_per_device=4, iterations=30, warmup=10,
                    unit="samples")
def test_net(dlperf):
    dlperf.run()
"""
CASE = "net-none-fp32-bs4-1n1c"


class Folder(PerfProject):
    """A folder with the case, and wheels of the five packages in two versions."""

    def write(self, *slow: str, cost: str = "0.005 * bool(slow)") -> None:
        """Write them; the later versions of ``slow`` are known by their last digit."""
        (self.path / "index").mkdir()
        later = {name: "2.1" if name in slow else "2.0" for name in NAMES}
        for name in NAMES:
            module = name.replace("-", "_")
            wheel(self.path / "index", "1.0", name=module)
            wheel(self.path / "index", later[name], name=module)
        self.write_file("program.py", PROGRAM.format(cost=cost))
        self.write_file("test_net.py", TEST)
        self.write_file("a.txt", "".join(f"{name}==1.0\n" for name in NAMES))
        self.write_file("b.txt", "".join(f"{n}=={later[n]}\n" for n in NAMES))

    def bisect(self, *words: str, a: str = "a.txt") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable, "-m", "pytest_dlperf.cli", "bisect-environment",
                f"--a={a}", "--b=b.txt", *words, CASE,
                "--", "--cpus=1", "-p", "no:cacheprovider",
            ],
            cwd=self.path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def answers(self) -> list[dict[str, Any]]:
        (file,) = self.path.glob(".dlperf/bisect-environment/*.json")
        answers: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["answers"]
        return answers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
    return Folder(tmp_path)


@pytest.mark.nightly
def test_the_package_that_is_slower_is_found_in_four_comparisons(folder: Folder):
    folder.write("pk-c")
    done = folder.bisect()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "slower: pk-c 1.0 to 2.1\n"
    assert "5 groups of packages differ" in done.stderr
    assert len(folder.answers()) <= 4
    left = [path for path in folder.path.glob(".dlperf/bisect-environment/*") if path.is_dir()]
    assert left == [], "no environment is left"
    again = folder.bisect()
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert "comparison" not in again.stderr, "the answers are known"


@pytest.mark.nightly
def test_a_budget_that_is_spent_is_gone_on_from(folder: Folder):
    folder.write("pk-e")
    done = folder.bisect("--budget=1s")
    assert done.returncode == 1, done.stderr
    assert "the budget of 1 s is spent; the same command goes on" in done.stderr
    first = folder.answers()
    assert len(first) == 1
    done = folder.bisect("--budget=2h")
    assert done.stdout == "slower: pk-e 1.0 to 2.1\n"
    assert folder.answers()[:1] == first
    assert f"{', '.join(first[0]['packages'])}: known: " in done.stderr


@pytest.mark.nightly
def test_two_that_are_slower_only_together(folder: Folder):
    folder.write("pk-a", "pk-e", cost="0.005 * (len(slow) == 2)")
    done = folder.bisect()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("slower: only together: pk-a 1.0 to 2.1; ")


@pytest.mark.nightly  # the gate has its main way
def test_interpreters_as_sides(folder: Folder):
    folder.write("pk-c")
    here = side_of(sys.executable, what="--a")
    old = [f"{name}==1.0" for name in NAMES[:3]]
    new = [f"{name}==2.0" for name in NAMES[1:2]]
    pythons = [
        make_environment(here, wanted, folder.path / word)
        for word, wanted in (("old", old), ("new", [*new, *old[2:]]))
    ]
    before, now = (side_of(python, what="--a") for python in pythons)
    assert changed(before.packages, now.packages) == ["pk-a", "pk-b"]
    assert now.packages["pk-b"].requirement == "pk_b==2.0"
    assert now.packages["pytest"].version == pytest.__version__, "those of the base are in it"
    mixed = make_environment(before, [now.packages["pk-b"].requirement], folder.path / "mixed")
    packages = side_of(mixed, what="--a").packages
    assert [packages[name].version for name in NAMES[:3]] == ["1.0", "2.0", "1.0"]


@pytest.mark.parametrize(
    ("a", "code", "words"),
    [
        ("b.txt", 2, "--a and --b have the same packages"),
        ("gone.txt", 2, "--a=gone.txt: there is no such file"),
        ("gone/python", 2, "--a=gone/python: give an interpreter"),
        ("bad.txt", 2, "bad.txt cannot be resolved"),
    ],
)
@pytest.mark.nightly  # the gate has its main way
def test_what_cannot_be_searched(folder: Folder, a: str, code: int, words: str):
    folder.write("pk-c")
    folder.write_file("bad.txt", "no-such-package==1\n")
    done = folder.bisect(a=a)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stderr
