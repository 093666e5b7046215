"""Programs that are read by what they print: stored, passed, regressed, and by logs alone."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.language_lines import nanogpt, olmo
from tests.helpers.log_lines import mlperf_step_time
from tests.helpers.log_writer import BATCH, Writer
from tests.helpers.perf_project import PerfProject, perf_test
from tests.helpers.vision_lines import informer, keras

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

#: Prints a log line by line.
PROGRAM = """
import pathlib, sys

log = pathlib.Path("printed", f"{sys.argv[1]}.log")
for line in log.read_text(encoding="utf-8").split("\\n"):
    print(line, flush=True)
"""


def tokens_of_nanogpt(i: int, s: float) -> str:
    """A batch of few samples, of many tokens."""
    return nanogpt(i, s).replace(f"will be: {BATCH}", "will be: 491,520")


#: By the suite of a case: its writer, its format, its unit, and what an iteration has of that.
PROGRAMS: Final[Mapping[str, tuple[Writer, str, str, float]]] = {
    "mlperf": (mlperf_step_time, "mlperf", "samples", BATCH),
    "olmo": (olmo, "olmo", "tokens", BATCH),
    "nanogpt": (tokens_of_nanogpt, "nanogpt", "tokens", 491_520),
    "informer": (informer, "informer", "samples", BATCH),
    "keras": (keras, "keras", "samples", BATCH),
}


class Programs(PerfProject):
    """A folder with a case for each program."""

    def write(self) -> None:
        marker: dict[str, Any] = {
            "framework": None, "layout": "1n1c", "batch_size_per_device": BATCH, "iterations": 150,
            "warmup": 50, "runs": 1, "max_runs": 1,
        }  # fmt: skip
        tests = [
            perf_test(
                name=suite,
                suite=suite,
                command=[sys.executable, "program.py", suite],
                log_format=name,
                **marker,
            )
            for suite, (_, name, _, _) in PROGRAMS.items()
        ]
        self.write_tests(*tests)
        self.write_file("program.py", PROGRAM)

    def print_logs(
        self,
        seconds: float,
        folder: str = "printed",
        *,
        of_cases: bool = False,
        suites: Collection[str] = PROGRAMS.keys(),
    ) -> None:
        """Write what programs are to print, or logs of their cases."""
        (self.path / folder).mkdir(exist_ok=True)
        noise = random.Random(7)
        for suite in suites:
            writer = PROGRAMS[suite][0]
            lines = [writer(i, seconds * noise.uniform(0.99, 1.01)) for i in range(150)]
            name = f"{suite}-none-fp32-bs{BATCH}-1n1c" if of_cases else suite
            (self.path / folder / f"{name}.log").write_text("\n".join(lines), encoding="utf-8")

    def judged(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Run a session; return its outcomes by suite."""
        _, outcomes = self.measured("--cpus=1", "-q", *arguments)
        return {outcome["case"]["suite"]: outcome for outcome in outcomes}


@pytest.fixture
def programs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    made = Programs(pytester.path)
    made.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    made.write()
    return made


def verdicts(outcomes: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    return {suite: outcome["judgement"]["verdict"] for suite, outcome in outcomes.items()}


def test_what_programs_print_is_stored_passed_and_regressed(programs: Programs):
    """By the programs, which run, and then by logs in their place."""
    programs.print_logs(0.5)
    stored = programs.judged("--update-baselines")
    for suite, (_, _, unit, work) in PROGRAMS.items():
        measurement = stored[suite]["measurement"]
        assert measurement is not None, stored[suite]["judgement"]["reason"]
        assert (measurement["unit"], suite) == (unit, suite)
        assert measurement["throughput"] == pytest.approx(2 * work, rel=0.02), suite

    assert verdicts(programs.judged()) == dict.fromkeys(PROGRAMS, "passed")
    programs.print_logs(1.0)
    assert verdicts(programs.judged()) == dict.fromkeys(PROGRAMS, "regressed")

    # As fast as stored, but one.
    programs.print_logs(0.5, "logs", of_cases=True)
    programs.print_logs(1.0, "logs", of_cases=True, suites={"olmo"})
    judged = verdicts(programs.judged("--dlperf-from-logs=logs"))
    assert judged == {**dict.fromkeys(PROGRAMS, "passed"), "olmo": "regressed"}
