"""``dlperf compare``, with a fake launcher."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_dlperf.report
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


CASES = """
from pytest_dlperf import expand

CASES = (
    *expand(suite="net", workload="w:build", launcher="torchrun", batch_size_per_device=256,
            layout=["1n1g", "1n8g"]),
    *expand(suite="net", workload="w:build", launcher="torchrun", batch_size_per_device=4,
            size="tiny", precision=["fp32", "bf16"], layout=["1n1c", "1n2c"]),
)
"""


class Checkout:
    """A checkout with one suite, whose steps take as long as the environment says."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.path = suite.path
        folder = self.path / "perf_tests/net"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        (folder / "cases.py").write_text(CASES, encoding="utf-8")

    def compare(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_dlperf.cli", "compare", *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            check=False,
        )

    def outcome(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self.compare("--json", *arguments)
        values = json.loads(done.stdout)
        schema = Path(pytest_dlperf.report.__file__).with_name("outcomes.schema.json")
        jsonschema.validate(values, json.loads(schema.read_text(encoding="utf-8")))
        [outcome] = values["outcomes"]
        return done.returncode, outcome


@pytest.fixture
def checkout(suite: Suite) -> Checkout:
    return Checkout(suite)


@pytest.mark.nightly  # the gate has its main way
def test_settings_of_the_environment(checkout: Checkout):
    done = checkout.compare("--a=FAKE_STEP_S=0.01", "--b=FAKE_STEP_S=0.02", "--suite=net")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "regressed: FAKE_STEP_S=0.02: 50.0 % slower than FAKE_STEP_S=0.01; find what changed"
    )
    assert "90 % interval" in done.stdout
    assert "in 5 pairs of runs" in done.stdout
    assert done.stderr.count("net.tiny-torch-fp32-bs4-1n1c run ") == 10


@pytest.mark.nightly  # the gate compares where there is one case
def test_the_case_is_the_one_that_is_named(checkout: Checkout):
    code, outcome = checkout.outcome(
        "--a=FAKE_STEP_S=0.02", "--b", "", "--suite=net", "--precision=bf16", "--cpus=2",
        "--max-runs=3",
    )  # fmt: skip
    assert code == 0
    assert outcome["case"]["id"] == "net.tiny-torch-bf16-bs4-1n2c"
    assert outcome["judgement"]["verdict"] == "improved"
    assert outcome["against"]["now"] == ""
    assert len(outcome["measurement"]["runs"]) == 3


@pytest.mark.nightly  # the gate has HEAD against itself in test_against.py
def test_an_environment_against_itself_is_a_null(checkout: Checkout):
    code, outcome = checkout.outcome("--a=HEAD", "--b=HEAD", "--suite=net", "--tolerance=15%")
    assert (code, outcome["judgement"]["verdict"]) == (0, "passed")
    assert "this was a null" in outcome["judgement"]["reason"]


def test_a_window_that_the_command_line_gives_is_not_made_longer(checkout: Checkout):
    given = ("--a=HEAD", "--b=HEAD", "--suite=net", "--tolerance=15%", "--iterations=150")
    _, outcome = checkout.outcome(*given)
    assert outcome["measurement"]["conditions"]["window"] == [50, 150]
    assert outcome["case"]["protocol"]["lengthened_from"] is None


def test_two_versions_of_a_package(checkout: Checkout):
    fast, slow = (_wheel(checkout.path, version, s) for version, s in (("1", 0.01), ("2", 0.02)))
    checkout.suite.env(FAKE_STEP_FILE="tinynet.py")
    code, outcome = checkout.outcome(f"--a={fast}", f"--b={slow}", "--suite=net")
    assert (code, outcome["judgement"]["verdict"]) == (1, "regressed")
    assert (outcome["against"]["kind"], outcome["against"]["name"]) == ("requirement", str(fast))
    assert outcome["against"]["now"] == str(slow)


def _wheel(folder: Path, version: str, step_s: float) -> Path:
    path = folder / f"tinynet-{version}-py3-none-any.whl"
    info = f"tinynet-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tinynet.py", f"step_s = {step_s}\n")
        file.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinynet\nVersion: {version}\n"
        )
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def test_a_program_that_marks_its_steps(checkout: Checkout):
    (checkout.path / "train.py").write_text(
        "import os\n"
        "from pytest_dlperf.mark import step\n"
        "import time, numpy\n"
        "for _ in range(8):\n"
        "    with step() as s:\n"
        "        time.sleep(float(os.environ['STEP_S']))\n"
        "        s.loss(1.0)\n"
    )
    code, outcome = checkout.outcome(
        "--a=STEP_S=0.002", "--b=STEP_S=0.05", "--iterations=8", "--warmup=2", "--max-runs=3",
        "--", "python", "train.py",
    )  # fmt: skip
    assert outcome["case"]["command"] == ["python", "train.py"]
    assert outcome["judgement"]["verdict"] != "error", outcome["judgement"]["reason"]
    assert all(min(run["step_seconds"]) >= 0.05 for run in outcome["measurement"]["runs"])
    assert code == (outcome["judgement"]["verdict"] == "regressed")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--a=HEAD", "--b=A=1"), 2, "either --suite NAME, or the words of a training"),
        (("--a=A=1 B", "--b=HEAD", "--suite=net"), 2, "--a=A=1 B: 'B' does not set a variable"),
        (("--a=HEAD", "--b=A=1", "--suite=other"), 2, "known are net"),
        (("--a=HEAD", "--b=A=1", "--suite=net", "--precision=amp"), 2, "no case of torch in amp"),
        (("--a=HEAD", "--b=A=1", "--launcher=ssh", "--", "x"), 2, "--launcher=ssh: known are"),
        (("--a=HEAD", "--b=A=1", "--warmup=9", "--iterations=9", "--", "x"), 2, "warm-up 9"),
        (("--a=HEAD",), 2, "--b"),
        (("--a=./no/python", "--b=HEAD", "--suite=net"), 1, "not a program that can be started"),
    ],
)
def test_what_cannot_be_compared(
    checkout: Checkout, arguments: tuple[str, ...], code: int, message: str
):
    done = checkout.compare(*arguments)
    assert done.returncode == code
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
