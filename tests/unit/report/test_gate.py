"""The name of a gate: by it a comment is found again, whatever became of the session."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.gate import gate_name, marker
from tests.helpers.report_builders import case, measured, unmeasured

pytestmark = pytest.mark.newest

NAMES = ("DLPERF_GATE", "GITHUB_WORKFLOW", "GITHUB_JOB", "CI_JOB_NAME")
ONE = measured(case(), 95.0)
assert ONE.environment is not None
OTHER = replace(ONE, environment=replace(ONE.environment, machine_class="7x-v100-sxm2-32gb"))
CANCELLED = replace(unmeasured(case(), Verdict.NOT_RUN, "cancelled"), interrupted=True)
BROKEN = replace(unmeasured(case(), Verdict.ERROR, "boom"), failed=True)


@pytest.fixture(autouse=True)
def without_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "outcomes",
    [[], [CANCELLED], [BROKEN], [ONE, CANCELLED], [OTHER], [ONE, OTHER], [CANCELLED, BROKEN]],
    ids=["none", "cancelled", "error", "halfway", "lost a GPU", "two classes", "nothing measured"],
)
def test_a_gate_has_one_marker_whatever_became_of_its_session(
    outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("", "perf"):
        monkeypatch.setenv("CI_JOB_NAME", job)
        first, second = (pull_request.render(some).splitlines()[0] for some in ([ONE], outcomes))
        assert first == second == marker()


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "gate"),
        ({"GITHUB_WORKFLOW": "perf", "GITHUB_JOB": "v100"}, "perf v100"),
        ({"CI_JOB_NAME": "perf: [a100]"}, "perf: [a100]"),
        ({"DLPERF_GATE": "a100", "GITHUB_WORKFLOW": "perf", "GITHUB_JOB": "perf"}, "a100"),
        ({"DLPERF_GATE": " \n", "CI_JOB_NAME": "perf\n1"}, "perf 1"),
    ],
    ids=["by hand", "GitHub", "GitLab", "named", "blank"],
)
def test_a_gate_is_named_by_its_job(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert gate_name() == name


def test_two_gates_have_two_markers_and_no_name_ends_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        "x---><img src=q>",
        "a--!>b",
        "训练",
        "推理",
        "a_b",
        "a/b",
        "a-b",
        "a--b",
        "a-",
        "a.b",
    ]
    markers = []
    for name in names:
        monkeypatch.setenv("DLPERF_GATE", name)
        markers.append(marker())
        # What comment.yml lets through
        assert re.fullmatch(r"<!-- pytest-dlperf: [A-Za-z0-9._+ -]+ -->", markers[-1])
        assert "--" not in markers[-1].removeprefix("<!--").removesuffix("-->")
    assert len(set(markers)) == len(names)
