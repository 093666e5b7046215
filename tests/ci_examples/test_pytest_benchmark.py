"""The real pytest-benchmark reads our file; so do parsers of JUnit, OpenMetrics and Markdown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from junitparser import Failure, JUnitXml, Properties
from markdown_it import MarkdownIt
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.helpers.ci_repository import CASE, Repository


def session(repository: Repository, name: str, *options: str, **env: str) -> dict[str, Any]:
    """Run the fake suite; return the benchmark file that it wrote as ``name``."""
    command = (
        f"$PERF_VENV/bin/pytest perf_tests --dlperf-benchmark-json={name} {' '.join(options)}"
    )
    ran = repository.bash(command, **env)
    assert (repository.path / name).exists(), ran.stdout + ran.stderr
    values: dict[str, Any] = json.loads((repository.path / name).read_text(encoding="utf-8"))
    return values


def benchmark(repository: Repository, *arguments: str) -> str:
    program = Path(sys.executable).with_name("pytest-benchmark")
    done = subprocess.run(
        [program, *arguments], cwd=repository.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    return done.stdout


def test_it_compares_two_sessions_by_the_right_ratio_and_draws_them(repository: Repository):
    before = session(repository, "a.json", "--dlperf-runs=3", FAKE_STEP_S="0.01")
    after = session(repository, "b.json", "--dlperf-runs=3", FAKE_STEP_S="0.02")
    told = benchmark(
        repository, "compare", "a.json", "b.json", "--columns=mean,ops,rounds",
        "--histogram=drawn",
    )  # fmt: skip
    assert f"benchmark '{CASE}': 2 tests" in told
    rows = [line for line in told.splitlines() if line.startswith("test_net")]
    assert all(f"test_net[{CASE}]" in row and row.endswith(" 3") for row in rows)
    ratios = [float(ratio) for row in rows for ratio in re.findall(r"\(([\d.]+)\)", row)]
    means = [one["benchmarks"][0]["stats"]["mean"] for one in (before, after)]
    assert means == [pytest.approx(0.01, rel=0.05), pytest.approx(0.02, rel=0.05)]
    assert ratios[0] == ratios[1] == 1.0
    assert ratios[2] == pytest.approx(means[1] / means[0], abs=0.01)
    [drawn] = repository.path.glob("drawn*.svg")
    assert "<svg" in drawn.read_text(encoding="utf-8")
    by_layout = benchmark(repository, "compare", "a.json", "b.json", "--group-by=param:layout")
    assert "layout=1n1c" in by_layout


def test_its_fields_are_those_of_a_file_that_pytest_benchmark_writes(repository: Repository):
    ours = session(repository, "a.json", "--dlperf-runs=3")
    (repository.path / "test_theirs.py").write_text("def test(benchmark): benchmark(sum, [1])\n")
    options = "--benchmark-json=theirs.json --benchmark-max-time=0.01"
    done = repository.bash(f"$PERF_VENV/bin/pytest test_theirs.py {options}")
    assert done.returncode == 0, done.stdout
    theirs = json.loads((repository.path / "theirs.json").read_text(encoding="utf-8"))
    assert set(theirs) == set(ours)
    [one], [other] = ours["benchmarks"], theirs["benchmarks"]
    assert set(other) == set(one)
    assert set(other["stats"]) <= set(one["stats"])
    assert {"id", "time", "dirty", "branch"} <= set(ours["commit_info"])
    assert {"node", "machine", "system", "python_version", "cpu"} <= set(ours["machine_info"])


ERROR = "ValueError: <b>训练吞吐率</b> | @octocat \x1b[2J\n::error::x\n]]> & ``` </details><img>"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def test_what_a_hostile_log_line_becomes_is_read_by_others(repository: Repository):
    session(
        repository, "b.json", "--junitxml=j.xml", "--dlperf-metrics=m.txt", "--dlperf-md=c.md",
        FAKE_FAIL="*", FAKE_ERROR=ERROR,
    )  # fmt: skip
    [suite] = JUnitXml.fromfile(str(repository.path / "j.xml"))
    [case] = suite
    assert case.name == f"test_net[{CASE}]"
    [failure] = case.result
    assert isinstance(failure, Failure)
    assert "训练吞吐率" in failure.message
    properties = {one.name: one.value for one in case.child(Properties)}
    assert properties["dlperf_verdict"] == "error"

    text = (repository.path / "m.txt").read_text(encoding="utf-8")
    families = {one.name: one for one in text_string_to_metric_families(text)}
    [failed] = families["dlperf_failed"].samples
    assert (failed.labels["case"], failed.value) == (CASE, 1.0)

    page = MarkdownIt("commonmark").enable("table").render(
        (repository.path / "c.md").read_text(encoding="utf-8")
    )  # fmt: skip
    allowed = {"h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"}
    assert Tags(page).tags <= allowed
    assert "训练吞吐率" in page
    assert "@octocat" not in re.sub(r"(?s)<code.*?</code>", "", page)
