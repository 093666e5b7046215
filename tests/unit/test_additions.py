"""What CONTRIBUTING calls one line is one: each is added to a copy, which then has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pytest_dlperf
from pytest_dlperf.core.wire import RankArguments

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
LAUNCHER = """
from __future__ import annotations

from pytest_dlperf.launch.base import Launcher, rank_command


class AddedLauncher(Launcher):
    installed_by = "the package added brings it: pip install added"

    def argv(self, case, target, workdir):
        command = rank_command(case, target, workdir, self.place_variables)
        return ("added", f"--ranks={case.world_size}", *command)
"""
FORMAT = """
    Format(
        name="added",
        scope="device",
        averaging="window",
        unit="images",
        anchors=(b"added:",),
        parse=parser(Field(rb"\\bstep="), rate=Field(rb"\\bspeed=")),
    ),
"""
CASES = """
from pytest_dlperf import expand

CASES = expand(suite="added", workload=f"{__package__}.torch_train:build", layout=["1n1c", "1n2c"],
               batch_size_per_device=2, launcher="added")
"""
TEST = """
import pytest

from .cases import CASES


@pytest.mark.dlperf(cases=CASES)
def test_added(dlperf):
    dlperf.run()
"""
FRAMEWORK = """
class Added:
    def __init__(self, arguments):
        raise RuntimeError(f"rank {arguments.rank} joins")
"""
PROBE = """
def probe():
    import added

    return {"framework_version": added.__version__}
"""
CHECK = """
from pytest_dlperf.core.finding import Finding, Weight


def check(evidence):
    figures = {"change": 0.5, "low": 0.4, "high": 0.6, "before": 2.0, "now": 3.0}
    yield Finding(code="worse", metric="added", weight=Weight.RED, figures=figures)
"""
REPORT = """
def render(outcomes):
    return f"{len(outcomes)} outcomes\\n"
"""
RANK = RankArguments(
    framework="added",
    workload="none:build",
    precision="fp32",
    device="cpu",
    size="tiny",
    loss="finite",
    batch_size_per_device=1,
    world_size=1,
    iterations=1,
    warmup=0,
    threads_per_rank=1,
    collective_timeout_s=1.0,
    seed=1,
    records="",
    place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
)
REFERENCE = "from dlperf_reference import options; print(options.text())"
#: By the first cell of a row of CONTRIBUTING's table: the file that it names, and the line there.
LINES = {
    "a launcher": (
        "pytest_dlperf/launch/launchers/__init__.py",
        "LAUNCHERS: Final = {",
        '"added": "added:AddedLauncher",',
    ),
    "a log format": (
        "pytest_dlperf/measure/logs/formats/examples.py",
        "FORMATS: Final = built_in(",
        FORMAT,
    ),
    "a gated metric": (
        "pytest_dlperf/core/metrics.py",
        "METRICS: Final[Mapping[str, Metric]] = {",
        '"added": Metric(words="added", value=lambda run, _: max(run.step_seconds), unit="s"),',
    ),
    "an option": (
        "pytest_dlperf/session/options.py",
        "OPTIONS: Final = (",
        'Option("added", "N", "how often it is added (1)", parse="whole", '
        'excludes={"list": "a list adds nothing"}),',
    ),
    "a report of a session": (
        "pytest_dlperf/session/options.py",
        "OPTIONS: Final = (",
        'ReportOption("added-report", "it is added", title="addition", module="added"),',
    ),
    "a check of the judge": (
        "pytest_dlperf/judge/findings.py",
        "CHECKS: Final[tuple[Check, ...]] = (",
        "added.check,",
    ),
    "a framework": (
        "pytest_dlperf/core/frameworks.py",
        "FRAMEWORKS: Final[Mapping[str, FrameworkEntry]] = {",
        '"added": FrameworkEntry(worker="Added", launcher="added", distributions=("added",), '
        'lowest=(1, 0), needed="the first"),',
    ),
}
#: What the file of a line imports for it.
IMPORTED = {
    "a check of the judge": ("from pytest_dlperf.judge.checks import (", "    added,"),
}
#: New files, in the folder that the row names.
FILES = {
    "a launcher": ("pytest_dlperf/launch/launchers/", {"added.py": LAUNCHER}),
    "a report of a session": ("pytest_dlperf/report/", {"added.py": REPORT}),
    "a check of the judge": ("pytest_dlperf/judge/checks/", {"added.py": CHECK}),
    "a framework": (
        "pytest_dlperf/worker/frameworks/",
        {"added/__init__.py": PROBE, "added/framework.py": FRAMEWORK},
    ),
    "a suite": (
        "perf_tests/",
        {"added/__init__.py": "", "added/cases.py": CASES, "added/test_added.py": TEST},
    ),
}


def row(thing: str) -> str:
    """Return the row of CONTRIBUTING's table that says where ``thing`` is added."""
    lines = (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()
    [found] = (line for line in lines if line.startswith(f"| {thing} |"))
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and the suites, to which one of each was added."""
    folder = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns("suites")
    shutil.copytree(Path(pytest_dlperf.__file__).parent, folder / "pytest_dlperf", ignore=left_out)
    shutil.copytree(ROOT / "perf_tests", folder / "perf_tests")
    for thing, (name, after, line) in LINES.items():
        # A new format goes into the file of its kind.
        named = f"{Path(name).parent}/" if thing == "a log format" else name
        assert f"`{named}`" in row(thing)
        path = folder / name
        text = path.read_text("utf-8")
        added = [(after, line), *([IMPORTED[thing]] if thing in IMPORTED else [])]
        for before, new in added:
            assert text.count(f"\n{before}\n") == 1
            text = text.replace(f"\n{before}\n", f"\n{before}\n{new}\n")
        path.write_text(text, "utf-8")
    for thing, (below, files) in FILES.items():
        assert below in row(thing)
        for name, text in files.items():
            (folder / below / name).parent.mkdir(exist_ok=True)
            (folder / below / name).write_text(text, "utf-8")
    return folder


def run(copy: Path, *words: str) -> tuple[int, str]:
    """Return the exit code and the output of Python with the copy."""
    path = os.pathsep.join([str(copy), str(ROOT / "docs")])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def perf(copy: Path, *options: str) -> tuple[int, str]:
    """Return the exit code and the output of pytest with the copy as its plugin."""
    return run(
        copy, "-m", "pytest", "-p", "pytest_dlperf.plugin", "-p", "no:cacheprovider", *options
    )


def test_a_suite_is_collected_and_a_launcher_makes_its_command(copy: Path):
    code, text = perf(copy, "perf_tests", "-k", "added", "--cpus=2", "--dlperf-dry-run")
    assert code == 0
    assert "\nadded-torch-fp32-bs2-1n2c\n" in text
    assert (
        f"\n  added --ranks=2 {sys.executable} -m pytest_dlperf.worker --framework=torch" in text
    )


def test_a_log_of_a_format_is_read(copy: Path):
    lines = (f"added: step={step} speed=40.0\n" for step in range(150))
    (copy / "x_gpu1_bs4.log").write_text("".join(lines), "utf-8")
    code, text = run(copy, "-m", "pytest_dlperf.cli", "extract", "--json", "x_gpu1_bs4.log")
    [found] = json.loads(text)["logs"]
    assert code == 0
    assert (found["format"], round(found["throughput"], 6)) == ("added", 40.0)


def test_an_option_is_shown_parsed_and_checked(copy: Path):
    assert "--dlperf-added=N      how often it is added (1)" in perf(copy, "--help")[1]
    assert "| `--dlperf-added=N` | how often it is added (1) |" in run(copy, "-c", REFERENCE)[1]
    # Nothing reads it, and what cannot be meant is refused all the same.
    refused = perf(copy, "perf_tests", "--dlperf-added=0")
    assert "--dlperf-added=0: give a whole number, 1 or more" in refused[1]
    both = perf(copy, "perf_tests", "--dlperf-added=2", "--dlperf-list")
    assert "--dlperf-added and --dlperf-list: a list adds nothing" in both[1]
    assert (refused[0], both[0]) == (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.USAGE_ERROR)


def test_a_metric_is_read_from_a_run_where_the_marker_gates_it(copy: Path):
    read = (
        "from pytest_dlperf.core.metrics import gates_of\n"
        "from pytest_dlperf.core.metrics import built_in\n"
        "from tests.helpers.judge_builders import run\n"
        "from dataclasses import replace\n"
        "one = replace(run(1.0), step_seconds=(1.0, 7.5))\n"
        "print(built_in(gates_of(['added']), one, (0, 2)))"
    )
    shutil.copytree(ROOT / "tests" / "helpers", copy / "tests" / "helpers", dirs_exist_ok=True)
    code, text = run(copy, "-c", read)
    assert (code, text) == (0, "{'added': Figure(value=7.5, unit='s', better='lower')}\n")


def test_a_check_is_asked_decides_and_is_worded(copy: Path):
    judge = (
        "from pytest_dlperf.core.verdict import Comparison, Verdict\n"
        "from pytest_dlperf.judge.verdict import judged\n"
        "from tests.helpers.judge_builders import evidence_by\n"
        "rate = Comparison(now=100.0, before=100.0, change=0.0, verdict=Verdict.PASSED)\n"
        "judgement = judged(evidence_by(rate))\n"
        "print(judgement.verdict, judgement.reason)"
    )
    shutil.copytree(ROOT / "tests" / "helpers", copy / "tests" / "helpers", dirs_exist_ok=True)
    code, text = run(copy, "-c", judge)
    assert (code, text.splitlines()[0]) == (
        0,
        "regressed added changed by +50.0 %; find what changed",
    )


def test_a_report_is_an_option_and_a_file(copy: Path):
    assert "--dlperf-added-report=FILE" in perf(copy, "--help")[1]
    write = (
        "from pathlib import Path\n"
        "from pytest_dlperf.session.report_files import ReportFiles\n"
        "files = ReportFiles()\n"
        "print(files.write({'added-report': Path('added.txt')}, [], {}), files.lines)"
    )
    assert run(copy, "-c", write) == (0, "True ['addition: added.txt']\n")
    assert (copy / "added.txt").read_text("utf-8") == "0 outcomes\n"


def test_a_framework_is_known_probed_and_started(copy: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    (copy / "added.py").write_text('__version__ = "1.2"', "utf-8")
    code, text = run(copy, "-m", "pytest_dlperf.worker.probe", "--framework=added")
    assert code == 0
    assert '"framework": "added", "framework_version": "1.2", "problem": ""' in text
    command = (
        "from pytest_dlperf.launch.launchers import launcher_name\n"
        "from tests.helpers.judge_builders import case\n"
        "print(launcher_name(case('1n2c', framework='added')))"
    )
    shutil.copytree(ROOT / "tests" / "helpers", copy / "tests" / "helpers", dirs_exist_ok=True)
    assert run(copy, "-c", command) == (0, "added\n")
    rank = replace(RANK, records=str(copy / "records")).flags()
    code, text = run(copy, "-m", "pytest_dlperf.worker", *rank)
    assert (code, text.splitlines()[-1]) == (1, "RuntimeError: rank 0 joins")
