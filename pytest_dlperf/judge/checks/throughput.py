"""How the throughput changed, by the two margins of the rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.compare import is_certainly_slower
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.figures import comparison_figures
from pytest_dlperf.judge.stats import family

_CODES: Final = {
    Verdict.IMPROVED: ("faster", Weight.BETTER),
    Verdict.PASSED: ("within-tolerance", Weight.GREEN),
    Verdict.REGRESSED: ("slower", Weight.RED),
    Verdict.INCONCLUSIVE: ("undecided", Weight.OPEN),
}


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is certain of the throughput, and what makes devices wait where it fell."""
    rate = evidence.rate
    if rate is None or evidence.contrast is None:
        return
    code, weight = _CODES[rate.verdict or Verdict.INCONCLUSIVE]
    rule = evidence.rule
    is_certain = evidence.case is not None and is_certainly_slower(
        evidence.contrast, family.throughput_rule(rule), evidence.spent
    )
    yield Finding(
        code=code,
        weight=weight,
        metric="throughput",
        figures=comparison_figures(
            rate,
            kind=evidence.kind.value,
            unit=evidence.unit,
            against=evidence.against,
            than=evidence.than,
            certain=(is_certain and code == "within-tolerance") or None,
            provisional=rate.provisional or None,
            min_effect=rule.min_effect,
            alpha=rule.alpha,
            **evidence.figures,
        ),
    )
    if code == "slower" and evidence.kind is Kind.PAIRS and evidence.why_devices_wait:
        figures = {"text": evidence.why_devices_wait}
        yield Finding(code="devices-wait", weight=Weight.NOTE, figures=figures)
