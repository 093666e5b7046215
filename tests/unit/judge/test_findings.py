"""What checks find: none knows of another; what forbids to judge hides what rests on the rate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from pytest_dlperf.core.finding import REFUSING, Finding, Weight
from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.judge import checks
from pytest_dlperf.judge import findings as all_findings
from pytest_dlperf.judge.evidence import Kind
from pytest_dlperf.judge.findings import findings_in
from pytest_dlperf.judge.verdict import judged
from tests.helpers.judge_builders import evidence_by

pytestmark = pytest.mark.newest

ROOT: Final = Path(checks.__file__).parents[3]
PACKAGE: Final = checks.__name__
MODULES: Final = sorted(
    path for path in Path(checks.__file__).parent.glob("*.py") if path.stem != "__init__"
)


def imports_of(path: Path) -> Iterator[str]:
    """Yield the absolute name of each module, and of each name, that a file imports."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_check(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_check_imports_another(path: Path) -> None:
    assert not [name for name in imports_of(path) if is_check(name)]


@pytest.mark.once
def test_only_the_findings_know_the_checks() -> None:
    judge = ROOT / "pytest_dlperf"
    importing = {
        path.relative_to(judge).as_posix()
        for path in judge.rglob("*.py")
        if any(map(is_check, imports_of(path)))
    }
    assert importing == {"judge/findings.py"}


def test_every_check_is_asked_once() -> None:
    asked = [check.__module__ for check in (*all_findings.FIRST, *all_findings.CHECKS)]
    assert sorted(asked) == sorted(f"{PACKAGE}.{path.stem}" for path in MODULES)


def compared(verdict: Verdict, change: float = -0.1) -> Comparison:
    return Comparison(
        now=100 * (1 + change), before=100.0, change=change,
        interval=(change - 0.01, change + 0.01), tolerance=0.05, sees=0.03, verdict=verdict,
    )  # fmt: skip


COUNT: Final = Comparison(now=4, before=3, change=1 / 3, tolerance=0.0, verdict=Verdict.REGRESSED)
GROWN: Final = compared(Verdict.REGRESSED, 0.3)
RATES: Final = (Verdict.IMPROVED, Verdict.PASSED, Verdict.REGRESSED, Verdict.INCONCLUSIVE)


def codes(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(one.code, one.metric) for one in findings]


def everything(kind: Kind) -> dict[str, Comparison]:
    """Return every metric that this kind of evidence may have, each worse."""
    of_kind = {
        Kind.SESSIONS: ("anchor", "speedup"),
        Kind.PAIRS: ("whole_window", "cpu_seconds"),
    }
    worse = dict.fromkeys((*of_kind[kind], "peak_memory", "step_p95"), GROWN)
    return worse | {"graph_breaks": COUNT}


FACTS: Final = [("worse", "peak_memory"), ("worse", "graph_breaks")]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    ("kind", "problem", "code"),
    [
        (Kind.SESSIONS, "disturbed", "disturbed"),
        (Kind.SESSIONS, "drift", "unsteady"),
        (Kind.PAIRS, "drift", "unsteady"),
    ],
)
def test_what_forbids_to_judge_hides_what_rests_on_the_rate_and_facts_stand(
    kind: Kind, problem: str, code: str, rate: Verdict
) -> None:
    evidence = evidence_by(compared(rate), kind=kind, problem=problem, **everything(kind))
    found = findings_in(evidence)
    assert codes(found) == [(code, ""), *FACTS]
    judgement = judged(evidence)
    assert judgement.verdict is Verdict.REGRESSED
    assert set(judgement.metrics) == {"peak_memory", "graph_breaks"}
    assert judgement.throughput.refused
    assert judgement.throughput.change == evidence.comparisons["throughput"].change


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    ("kind", "problem"), [(Kind.SESSIONS, "disturbed"), (Kind.PAIRS, "drift")]
)
def test_without_a_fact_only_what_forbids_to_judge_is_said(
    kind: Kind, problem: str, rate: Verdict
) -> None:
    rests = {name: one for name, one in everything(kind).items() if ("worse", name) not in FACTS}
    judgement = judged(evidence_by(compared(rate), kind=kind, problem=problem, **rests))
    assert all(finding.weight in REFUSING for finding in judgement.findings)
    assert judgement.verdict in {Verdict.INCOMPARABLE, Verdict.UNSTEADY}
    assert judgement.metrics == {}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("kind", [Kind.SESSIONS, Kind.PAIRS])
def test_of_other_conditions_nothing_else_is_asked(kind: Kind, rate: Verdict) -> None:
    evidence = evidence_by(
        compared(rate), kind=kind, problem="drift", differences=("unit: images, was tokens",),
        **everything(kind),
    )  # fmt: skip
    assert codes(findings_in(evidence)) == [("conditions-differ", "")]
    assert judged(evidence).verdict is Verdict.INCOMPARABLE


def test_a_failed_training_is_no_question_of_its_conditions() -> None:
    evidence = evidence_by(
        compared(Verdict.PASSED), kind=Kind.LOGS, differences=("devices: 8, was 4",)
    )
    assert judged(replace(evidence, failure="its loss is not finite")).verdict is Verdict.ERROR


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("rate", RATES)
def test_a_rate_that_is_judged_has_one_finding_with_its_figures(kind: Kind, rate: Verdict) -> None:
    evidence = evidence_by(compared(rate, -0.07), kind=kind)
    [finding] = findings_in(evidence)
    assert finding.metric == "throughput"
    assert judged(evidence).verdict is rate
    shown = {name: finding.figures[name] for name in ("change", "low", "high", "kind")}
    low, high = compared(rate, -0.07).interval or (0.0, 0.0)
    assert shown == {"change": -0.07, "low": low, "high": high, "kind": kind.value}


@pytest.mark.parametrize("kind", [Kind.SESSIONS, Kind.PAIRS])
def test_each_metric_that_is_worse_is_a_finding_of_its_own(kind: Kind) -> None:
    evidence = evidence_by(compared(Verdict.INCONCLUSIVE, 0.0), kind=kind, **everything(kind))
    worse = [one.metric for one in findings_in(evidence) if one.code == "worse"]
    assert sorted(worse) == sorted(everything(kind))
    weights = {one.metric: one.weight for one in findings_in(evidence) if one.code == "worse"}
    facts = {name for name, weight in weights.items() if weight is Weight.FACT}
    assert facts == {"peak_memory", "graph_breaks"}


@pytest.mark.parametrize("name", ["whole_window", "step_p95"])
def test_a_metric_that_is_open_leaves_a_certified_rate_open(name: str) -> None:
    both = {name: compared(Verdict.INCONCLUSIVE, 0.02)}
    judgement = judged(evidence_by(compared(Verdict.PASSED), kind=Kind.PAIRS, **both))
    assert ("open", name) in codes(judgement.findings)
    assert judgement.verdict is Verdict.INCONCLUSIVE
