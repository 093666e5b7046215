"""Whether the runs can be trusted: any rule to compute a rate says the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.quantity import signed
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.stretch import most_different
from pytest_dlperf.core.verdict import GOOD, Comparison, Verdict
from pytest_dlperf.judge.canary import shift_behind
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.figures import comparison_figures
from pytest_dlperf.judge.problem_codes import UNSTEADY
from pytest_dlperf.judge.sides import ratio_value
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.contrast import quantile, run_variance

#: A speedup above this times the number of devices is suspect.
_SUPER_LINEAR: Final = 1.05
#: The verdicts on which estimators can disagree.
_VERDICT_WORDS: Final = {**dict.fromkeys(GOOD, "certified"), Verdict.REGRESSED: "regressed"}


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield why the measurement itself cannot be trusted.

    Not of a case that is slower by every reading of its runs: which of them is right does not
    matter then.
    """
    is_log = evidence.kind is Kind.LOGS
    text = evidence.problem_text(UNSTEADY, by="; " if is_log else ", and ")
    if evidence.kind is Kind.SESSIONS:
        text = text or _implausible(evidence)
    if text and (is_log or not evidence.is_slower_anyway):
        figures = {"kind": evidence.kind.value, "text": text}
        yield Finding(code="unsteady", weight=Weight.DOUBT, figures=figures)
        return
    yield from _disagreement(evidence)


def _implausible(evidence: Evidence) -> str:
    """Return why a speedup is impossible beyond the noise of the runs, or nothing."""
    case, now = evidence.case, evidence.now
    if case is None or now is None or not now.parent_throughputs:
        return ""
    level = ratio_value(now.throughputs, now.parent_throughputs)
    reference = now.reference
    ideal = case.world_size / (1 if reference is None else reference.world_size)
    if ideal <= 1 or level.amount <= _SUPER_LINEAR * ideal:
        return ""
    variance, df = run_variance([level], priors.prior_of_throughput(case))
    low = level.value - quantile(evidence.rule.alpha, df) * math.sqrt(variance * level.share)
    if low <= math.log(ideal):
        return ""
    if reference is not None:
        return (
            f"a speedup of {level.amount:.3g} of {case.layout} over {reference} is implausible: "
            f"the runs of {reference} were slowed, or did other work"
        )
    return (
        f"a speedup of {level.amount:.3g} on {case.world_size} devices is implausible: the "
        "one-device runs were slowed, or did other work"
    )


def _disagreement(evidence: Evidence) -> Iterator[Finding]:
    """Yield how rates of the same runs, computed by different rules, disagree about a change."""
    rate, disagreement = evidence.rate, evidence.disagreement
    if disagreement is not None and rate is not None and not evidence.is_slower_anyway:
        by_name = (f"{name} {signed(change)}" for name, change in disagreement.changes.items())
        yield _finding(evidence, ", ".join(by_name), disagreement.stretch)
    if evidence.kind is not Kind.SESSIONS or rate is None or evidence.now is None:
        return
    by_rule = {"work over time": rate}
    for name, compared in evidence.by_estimator.items():
        by_rule[name.replace("_", " ")] = compared
    if _disagree(evidence, by_rule):
        changes = ", ".join(
            f"{name} {signed(compared.change or 0.0)}, {_word(compared) or 'open'}"
            for name, compared in by_rule.items()
        )
        yield _finding(evidence, changes, _stretch(evidence.now))


def _finding(evidence: Evidence, changes: str, stretch: str) -> Finding:
    assert evidence.rate is not None
    return Finding(
        code="estimators-disagree",
        weight=Weight.DOUBT,
        figures=comparison_figures(
            evidence.rate,
            kind=evidence.kind.value,
            changes=changes,
            stretch=stretch,
            unit=evidence.unit,
            against=evidence.against,
        ),
    )


def _disagree(evidence: Evidence, by_rule: Mapping[str, Comparison]) -> bool:
    """Whether one certifies what another calls regressed, more than ``min_effect`` apart.

    What the machine may have done to a rate is no verdict on it.
    """
    changes: dict[str, list[float]] = {}
    for compared in by_rule.values():
        if _word(compared) and compared.change is not None and not _is_machine(evidence, compared):
            changes.setdefault(_word(compared), []).append(compared.change)
    if len(changes) < 2:
        return False
    return max(changes["certified"]) - min(changes["regressed"]) > evidence.rule.min_effect


def _word(compared: Comparison) -> str:
    return "" if compared.verdict is None else _VERDICT_WORDS.get(compared.verdict, "")


def _is_machine(evidence: Evidence, compared: Comparison) -> bool:
    assert evidence.now is not None
    assert evidence.case is not None
    device = evidence.case.layout.device
    return shift_behind(evidence.now, evidence.stored, device, compared)[1]


def _stretch(measurement: Measurement) -> str:
    """Return in words the oddest stretch of the run whose estimators disagree most."""

    def gap(run: RunSummary) -> float:
        return max(abs(math.log(rate / run.throughput)) for rate in run.estimates.values())

    first, end = measurement.conditions.window
    run = max(measurement.runs, key=gap)
    stretch = most_different(run.step_seconds[first:end], first)
    return stretch.words(run.throughput, measurement.unit) if stretch else ""
